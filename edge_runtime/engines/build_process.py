"""`python -m edge_runtime.engines.build_process REQUEST`: builds one engine, in a process behind all others.

TensorRT times hundreds of kernels for minutes and may take all memory, crash, or hang: none of that may happen to a
process that looks at cameras. Its standard output is one JSON object a line: progress, and at the end what came of
it.
"""

import contextlib
import ctypes
import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from edge_runtime.durable import NO_ROOM, write_file
from edge_runtime.engines.machine import missing_tensorrt, tensorrt_version
from edge_runtime.engines.network import (
    NetworkRefused,
    build,
    configure,
    device_memory,
    make_monitor,
    parse_network,
)
from edge_runtime.engines.progress import BuildProgress
from edge_runtime.engines.recipe import EngineRecipe
from edge_runtime.lifeline import die_with_parent, leave_no_core
from edge_runtime.perception.backends.tensorrt import PluginLibrary, PluginRefused
from edge_runtime.perception.backends.tensorrt.log import log_of, says_memory
from edge_runtime.perception.backends.tensorrt.plugins import load_plugins, plugin_digests

LOWEST: Final = 19
PLUGIN: Final = "plugin"
"""Kind of an end that a plugin library brought about: it says nothing about the model."""

ROOM: Final = "room"
"""Kind of an end for want of room on the disk."""

_IOPRIO_SET: Final = {"x86_64": 251, "aarch64": 30}
_IOPRIO_IDLE: Final = 3 << 13
_IOPRIO_PROCESS: Final = 1
_MOST_LINES: Final = 20


class BuildRequest(BaseModel):
    """What is to be built.

    Attributes:
        weights: the ONNX file; its digest must be the recipe's.
        recipe: of the engine.
        result: where the engine is written.
        timing_cache: where a serialised timing cache lies, if there is one; the new one takes its place.
        plugins: libraries of the recipe; each must still have the digest that it is named with.
        parent: process that waits for it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    weights: Path
    recipe: EngineRecipe
    result: Path
    timing_cache: Path
    plugins: tuple[PluginLibrary, ...] = ()
    parent: int


def main(arguments: list[str]) -> int:
    """Build; the exit code is 0 where the engine is there, else 1 and the last line says why."""
    say = _Lines()
    leave_no_core()
    if len(arguments) != 1:
        return say.failed("usage", "usage: python -m edge_runtime.engines.build_process REQUEST")
    try:
        request = BuildRequest.model_validate_json(Path(arguments[0]).read_bytes(), strict=False)
    except (OSError, ValidationError) as error:
        return say.failed("usage", f"{arguments[0]}: is no request: {' '.join(str(error).split())[:300]}")
    die_with_parent(parent=request.parent)
    stand_back()
    try:
        done = build_here(request, say.progress)
    except (NetworkRefused, PluginRefused, MemoryError, OSError) as error:
        return say.failed(*_why(error))
    say.line({"done": done})
    return 0


def _why(error: Exception) -> tuple[str, str, tuple[str, ...]]:
    """Kind, sentence and TensorRT's words for a build that gave no engine."""
    if isinstance(error, NetworkRefused):
        return "memory" if says_memory(error.log) else "refused", str(error), error.log
    if isinstance(error, MemoryError):
        return "memory", "there was not enough memory to build the engine", ()
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return ROOM if error.errno in NO_ROOM else "files", f"{where}{error.strerror}", ()
    return PLUGIN, str(error), ()


def build_here(request: BuildRequest, tell: Callable[[BuildProgress], None]) -> Mapping[str, Any]:
    """Build in this process; the engine and the timing cache are in their files then.

    Args:
        request: what is to be built.
        tell: told each sign of progress, from several threads.

    Returns:
        The last word: `seconds`, `device_memory_bytes`, `bytes`, `log`.

    Raises:
        NetworkRefused: there is no engine.
        PluginRefused: a plugin library is not loaded.
        OSError: a file cannot be read or written.
    """
    try:
        import tensorrt as trt  # noqa: PLC0415 - only where an engine is built
    except ImportError:
        raise NetworkRefused(missing_tensorrt()) from None
    recipe = request.recipe
    if (found := tensorrt_version(trt)) != recipe.machine.tensorrt:
        raise NetworkRefused(
            f"asked to build for TensorRT {recipe.machine.tensorrt}, and {found} is installed here"
        )
    tell(BuildProgress("parse", 0, 0))
    model = request.weights.read_bytes()
    if hashlib.sha256(model).hexdigest() != recipe.weights_sha256:
        raise NetworkRefused(
            f"{request.weights.name} is not the file that the engine was asked for: it was exchanged"
        )
    for name, digest in recipe.external.items():
        if hashlib.sha256((request.weights.parent / name).read_bytes()).hexdigest() != digest:
            raise NetworkRefused(f"{name} is not the file that the engine was asked for: it was exchanged")
    if plugin_digests(request.plugins) != recipe.plugins:
        raise NetworkRefused("the plugin libraries are not those that the engine was asked for")
    log = log_of(trt)
    mark = log.mark()
    builder = trt.Builder(log.logger)
    load_plugins(builder, request.plugins, log)
    began = time.monotonic()
    network, parser = parse_network(trt, builder, log, model, request.weights)
    del model
    cache = request.timing_cache.read_bytes() if request.timing_cache.is_file() else b""
    config = configure(trt, builder, network, recipe, cache)
    monitor = make_monitor(trt, tell)
    config.progress_monitor = monitor
    engine = build(builder, network, config, log)
    seconds = time.monotonic() - began
    tell(BuildProgress("save", 0, 0))
    timing = config.get_timing_cache()
    if timing is not None:
        write_file(request.timing_cache, bytes(timing.serialize()), 0o600)
    del timing, config, network, parser, builder
    scratch = device_memory(trt, log, engine, request.plugins)
    write_file(request.result, engine, 0o600)
    return {
        "seconds": round(seconds, 3),
        "device_memory_bytes": scratch,
        "bytes": len(engine),
        "log": log.since(mark, _MOST_LINES),
    }


class _Lines:
    """The process's standard output, kept for JSON: what libraries print there goes to standard error."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._stream = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
        os.dup2(2, 1)

    def line(self, record: Mapping[str, Any]) -> None:
        """One record."""
        with self._lock, contextlib.suppress(BrokenPipeError):
            self._stream.write(json.dumps(record) + "\n")
            self._stream.flush()

    def progress(self, progress: BuildProgress) -> None:
        """One sign of progress."""
        with self._lock, contextlib.suppress(BrokenPipeError):
            self._stream.write(progress.line() + "\n")
            self._stream.flush()

    def failed(self, kind: str, text: str, log: tuple[str, ...] = ()) -> int:
        """The last record: why there is no engine."""
        self.line({"failed": {"kind": kind, "text": text, "log": list(log[-_MOST_LINES:])}})
        return 1


def stand_back(nice: int = LOWEST) -> None:
    """Let cameras and the guard come first.

    Args:
        nice: of this process from now on, 0 to 19; the disk serves it when nobody else asks.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:  # Python has no call for it; where it is refused the build is only less polite
        ctypes.CDLL(None, use_errno=True).syscall(number, _IOPRIO_PROCESS, 0, _IOPRIO_IDLE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
