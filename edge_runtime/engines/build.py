"""Waits for a build in a process of its own: shows how far it is, and ends it when its time is over.

The child leads its own process group, which is killed as a whole: nothing of a build outlives who waits for it.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import IO, Any, Final, Protocol

from edge_runtime.engines.build_process import BuildRequest
from edge_runtime.engines.errors import BuildFailed, BuildTimeout
from edge_runtime.engines.progress import BuildProgress, OnProgress, read_progress, show_nothing
from edge_runtime.engines.recipe import EngineRecipe
from edge_runtime.engines.verify import MAX_ENGINE_BYTES
from edge_runtime.lifeline import signal_name
from edge_runtime.perception.backends.tensorrt import PluginLibrary
from edge_runtime.perception.backends.tensorrt.log import one_line

_MOST_LINE: Final = 1 << 20
_TAIL: Final = 4000
"""Bytes kept of what a build writes to standard error: a library in a loop must not fill the disk."""

_DRAIN_S: Final = 2.0
_TOLD_EVERY_S: Final = 1.0
"""Whoever waits hears at least so often that the build still runs."""


@dataclass(frozen=True, slots=True)
class BuiltEngine:
    """What came of a build.

    Attributes:
        engine: serialised.
        seconds: that TensorRT took.
        device_memory_bytes: scratch memory of one execution context.
        log: what TensorRT warned of, oldest first.
        timing_cache: serialised; empty where there is none.
    """

    engine: bytes
    seconds: float
    device_memory_bytes: int
    log: tuple[str, ...]
    timing_cache: bytes


class Builder(Protocol):
    """Builds an engine and waits for it; see `build_engine`."""

    def __call__(
        self,
        weights: Path,
        recipe: EngineRecipe,
        *,
        scratch: Path,
        budget_s: float,
        timing_cache: bytes,
        plugins: Sequence[PluginLibrary],
        progress: OnProgress,
    ) -> BuiltEngine:
        """Build."""
        ...


KILLED: Final = "killed"
"""Kind of an end that somebody else brought about, or nobody knows."""


class NoEngine(BuildFailed):
    """The process of the build came to an end without an engine.

    Args:
        kind: `refused`, `memory`, `plugin`, `room`, `files`, `usage`, or `killed`.
        text: one sentence.
        log: what TensorRT said, oldest first.
    """

    def __init__(self, kind: str, text: str, log: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.kind, self.log = kind, log


def build_engine(
    weights: Path,
    recipe: EngineRecipe,
    *,
    scratch: Path,
    budget_s: float,
    timing_cache: bytes = b"",
    plugins: Sequence[PluginLibrary] = (),
    progress: OnProgress = show_nothing,
) -> BuiltEngine:
    """Build an engine and wait for it.

    Args:
        weights: the ONNX file.
        recipe: of the engine.
        scratch: a folder on a disk with room for the engine; nothing is left in it.
        budget_s: how long it may take.
        timing_cache: of earlier builds on this machine.
        plugins: libraries of the recipe.
        progress: told each sign of progress, and at least each second the last one again.

    Raises:
        BuildTimeout: it takes longer; it is ended.
        BuildFailed: there is no engine; the text says why.
        OSError: the folder cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="building-", dir=scratch) as name:
        folder = Path(name)
        request = BuildRequest(
            weights=weights.absolute(),
            recipe=recipe,
            result=folder / "engine",
            timing_cache=folder / "timing",
            plugins=tuple(plugins),
            parent=os.getpid(),
        )
        (folder / "request.json").write_text(request.model_dump_json(), encoding="utf-8")
        if timing_cache:
            request.timing_cache.write_bytes(timing_cache)
        child = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "edge_runtime.engines.build_process", str(folder / "request.json")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert child.stderr is not None
        errors = _Tail(child.stderr)
        with _ended(child):
            last = _follow(child, budget_s, progress)
        return collect(request, _result(child, last, errors))


def _follow(child: "subprocess.Popen[bytes]", budget_s: float, progress: OnProgress) -> Mapping[str, Any]:
    """The last record of the child; empty where it left without one."""
    until = time.monotonic() + budget_s
    latest = BuildProgress("start", 0, 0)
    last: Mapping[str, Any] = {}
    progress(latest)
    for line in _lines(child, until):
        record = _record(line)
        if "done" in record or "failed" in record:
            last = record
        latest = read_progress(record) or latest
        progress(latest)
    try:
        child.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise _late(budget_s) from None
    return last


def _lines(child: "subprocess.Popen[bytes]", until: float) -> Iterator[bytes]:
    """Its lines, and an empty one whenever it says nothing for a second; ends with its output, or raises."""
    assert child.stdout is not None
    began = time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        kept = b""
        while True:
            left = until - time.monotonic()
            if left <= 0:
                raise _late(until - began)
            if not selector.select(min(left, _TOLD_EVERY_S)):
                yield b""
                continue
            piece = os.read(child.stdout.fileno(), 1 << 16)
            if not piece:
                return
            *whole, kept = (kept + piece).split(b"\n")
            if len(kept) > _MOST_LINE:
                kept = b""
            yield from whole


class _Tail(Thread):
    """Reads a stream to its end, and keeps the end alone."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(name="build-stderr", daemon=True)
        self._stream, self._kept = stream, b""
        self.start()

    def run(self) -> None:
        """Until nobody writes any more."""
        with self._stream:
            while piece := os.read(self._stream.fileno(), 1 << 16):
                self._kept = (self._kept + piece)[-_TAIL:]

    def lines(self) -> tuple[str, ...]:
        """The last lines. Who left the build's process group may still hold the stream, and is not waited for."""
        self.join(_DRAIN_S)
        text = self._kept.decode("utf-8", "replace")
        return tuple(one_line(line) for line in text.splitlines() if line.strip())[-8:]


def _late(budget_s: float) -> BuildTimeout:
    return BuildTimeout(
        f"the engine was not built within {budget_s:.0f} s, and the build was ended: "
        "give it more with engines.build_budget, or build it beforehand with `edge-runtime engine build`"
    )


@contextlib.contextmanager
def _ended(child: "subprocess.Popen[bytes]") -> Iterator[None]:
    """However the block is left, nothing of the child's group runs any more."""
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def _result(child: "subprocess.Popen[bytes]", last: Mapping[str, Any], errors: _Tail) -> Mapping[str, Any]:
    done, failed = last.get("done"), last.get("failed")
    if isinstance(done, dict) and child.returncode == 0:
        return done
    if isinstance(failed, dict):
        log = tuple(str(line) for line in failed.get("log", ()))
        raise NoEngine(str(failed.get("kind")), str(failed.get("text")), log)
    log = errors.lines()
    if child.returncode < 0:
        name = signal_name(-child.returncode)
        why = ": the system needed its memory, most likely" if child.returncode == -signal.SIGKILL else ""
        raise NoEngine(KILLED, f"the process that built the engine was ended by {name}{why}", log)
    raise NoEngine(
        KILLED, f"the process that built the engine left with {child.returncode} and no reason", log
    )


def collect(request: BuildRequest, done: Mapping[str, Any]) -> BuiltEngine:
    """What the process of a build left in its files.

    Args:
        request: that it was given.
        done: its last word.

    Raises:
        NoEngine: the engine is not the one that it speaks of.
    """
    size = request.result.stat().st_size
    if size != done.get("bytes") or size > MAX_ENGINE_BYTES:
        raise NoEngine(
            "files", f"the engine that was built has {size} bytes, and {done.get('bytes')} were written"
        )
    return BuiltEngine(
        engine=request.result.read_bytes(),
        seconds=float(done["seconds"]),
        device_memory_bytes=int(done["device_memory_bytes"]),
        log=tuple(str(line) for line in done.get("log", ())),
        timing_cache=request.timing_cache.read_bytes() if request.timing_cache.is_file() else b"",
    )


def _record(line: bytes) -> Mapping[str, Any]:
    """A line as JSON; empty for what is none."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
