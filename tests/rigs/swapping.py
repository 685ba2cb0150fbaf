"""Cameras that run while their model is exchanged: a real clip, real models, the real socket, one process."""

import hashlib
import json
import shutil
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import yaml
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.config import LoadedConfig, load_config
from edge_runtime.config.updates import UpdatesConfig
from edge_runtime.node.assigned import assigned_at_start, fitting
from edge_runtime.node.models import load_models
from edge_runtime.node.node import Node
from edge_runtime.node.snapshot import RunSnapshot
from edge_runtime.packages.manifest import MANIFEST_NAME
from edge_runtime.perception.detections import Tracks
from edge_runtime.protocol import EventRecord
from edge_runtime.protocol.swap import (
    MAX_LINE_BYTES,
    CandidateState,
    Load,
    Look,
    SlotLook,
    SwapAnswer,
    SwapRecord,
    line_of,
)
from edge_runtime.sources import Frame
from edge_runtime.state import short_socket_path

ACCEPTED = ["NOASSERTION", "AGPL-3.0"]
PERSON = {"kind": "occupancy", "name": "busy", "labels": ["person"], "at_least": 1, "hold": 0}


def release_of(number: int) -> str:
    """A bundle's digest, made up: perception never looks inside."""
    return hashlib.sha256(b"release %d" % number).hexdigest()


def derived(
    package: Path, folder: Path, *, weights: bytes | None = None, golden: bool = True, **fields: Any
) -> Path:
    """Another package with fields of its manifest changed, and other weights where some are given."""
    shutil.copytree(package, folder)
    manifest = json.loads((folder / MANIFEST_NAME).read_text(encoding="utf-8"))
    if weights is not None:
        path = folder / manifest["weights"]["file"]
        path.chmod(0o644)
        path.write_bytes(weights)
        digest = hashlib.sha256(weights).hexdigest()
        manifest["weights"] |= {"sha256": digest, "bytes": len(weights)}
        manifest["version"] = f"sha256:{digest}"
    if not golden:
        manifest["golden"] = []
    for name, value in fields.items():
        manifest[name] = manifest[name] | value if isinstance(value, dict) else value
    (folder / MANIFEST_NAME).write_text(json.dumps(manifest), encoding="utf-8")
    return folder


def labels_of(package: Path) -> list[str]:
    """The label map of a package."""
    found: list[str] = json.loads((package / MANIFEST_NAME).read_text(encoding="utf-8"))["labels"]
    return found


def exchanged(labels: Sequence[str], first: str, second: str) -> list[str]:
    """A label map in which two names have changed places."""
    return [{first: second, second: first}.get(name, name) for name in labels]


def without_numbers(weights: Path, *, below_mean: float | None = None) -> bytes:
    """A model whose every output is NaN: always, or for pictures whose pixels are darker than `below_mean`."""
    model = onnx.load(str(weights))
    graph = model.graph
    (output,) = graph.output
    inner = f"{output.name}_inner"
    for node in graph.node:
        node.output[:] = [inner if name == output.name else name for name in node.output]
    limit = 1e9 if below_mean is None else below_mean
    graph.initializer.append(numpy_helper.from_array(_scalar(limit), "dark_limit"))
    graph.node.extend(
        [
            helper.make_node("ReduceMean", [graph.input[0].name], ["brightness"], keepdims=0),
            helper.make_node("Sub", ["brightness", "dark_limit"], ["over_limit"]),
            helper.make_node("Sqrt", ["over_limit"], ["root"]),
            helper.make_node("Sub", ["root", "root"], ["nothing"]),
            helper.make_node("Add", [inner, "nothing"], [output.name]),
        ]
    )
    assert output.type.tensor_type.elem_type == TensorProto.FLOAT
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def _scalar(value: float) -> Any:
    return np.array(value, np.float32)


class Watching:
    """Takes every frame that was looked at, and every event.

    Attributes:
        forgetful: keeps neither tracks nor times nor events, for runs whose memory is measured.
    """

    def __init__(self) -> None:
        self.forgetful = False
        self.frames: list[tuple[int, int]] = []
        self.seen: list[bool] = []
        self.tracks: list[Tracks | None] = []
        self.done_ns: list[int] = []
        self.captured_ns: list[int] = []
        self.events: list[EventRecord] = []

    def add(
        self, frame: Frame, tracks: Tracks | None, events: Sequence[EventRecord], notice: str | None
    ) -> None:
        self.frames.append((frame.epoch, frame.sequence))
        self.seen.append(notice is None)
        if self.forgetful:
            return
        self.captured_ns.append(frame.capture_ns)
        self.tracks.append(tracks)
        self.done_ns.append(time.monotonic_ns())

    def gaps(self) -> list[tuple[int, int]]:
        """Frames that are missing, or not in their place."""
        found, expected = [], (0, 0)
        for epoch, sequence in self.frames:
            if (epoch, sequence) != expected and (epoch, sequence) != (expected[0] + 1, 0):
                found.append((epoch, sequence))
            expected = epoch, sequence + 1
        return found

    def write(self, event: EventRecord) -> bool:
        if not self.forgetful:
            self.events.append(event)
        return True


def swap_config(
    folder: Path, package: Path, source: dict[str, Any], trial_share: float = 1.0, **more: Any
) -> LoadedConfig:
    """One camera `street` and its model `m`; a candidate takes all the time that it wants: tests are short."""
    camera = {"source": source, "model": "m", "data_class": "internal", "rules": [PERSON]}
    model = {"package": str(package), "threads": 1, "accept_licences": ACCEPTED}
    document = {
        "version": 1,
        "models": {"m": model | more.pop("model", {})},
        "cameras": {"street": camera | more.pop("camera", {})},
        **more,
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    loaded = load_config(path)
    updates = UpdatesConfig(enabled=False, trial_share=trial_share)
    return replace(loaded, config=loaded.config.model_copy(update={"updates": updates}))


def ask_at(path: Path, data: bytes) -> SwapAnswer:
    """One line to perception's socket, as it is; the answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(30)
        with short_socket_path(path) as name:
            line.connect(name)
        line.sendall(data)
        with line.makefile("rb") as reading:
            return SwapAnswer.model_validate_json(reading.readline(MAX_LINE_BYTES))


class Exchanging:
    """A node that runs on a thread of its own, with its socket.

    Attributes:
        watching: what came of the frames.
        result: of the run, once it is over.
    """

    def __init__(self, loaded: LoadedConfig, folder: Path, *, updates: Path | None = None) -> None:
        self.watching = Watching()
        self.path = folder / "perception.sock"
        assigned = assigned_at_start(loaded, updates)
        opened = load_models(assigned.loaded, updates=updates)
        self.assigned, self.models = fitting(assigned, updates, opened)
        self.node = Node(
            self.assigned.loaded,
            self.models,
            assigned=None if updates is None else (self.assigned, updates),
            sinks=[self.watching],
            observers={"street": self.watching},
            swap_socket=self.path,
        )
        self.result: RunSnapshot | None = None
        self._thread = threading.Thread(target=self._run, name="node")

    def _run(self) -> None:
        self.result = self.node.run()

    def __enter__(self) -> "Exchanging":
        self._thread.start()
        self.wait(self._answers)
        return self

    def __exit__(self, *_: object) -> None:
        self.node.request_stop()
        self._thread.join(60)
        for ready in self.models.values():
            ready.close()
        assert not self._thread.is_alive()

    def _answers(self) -> bool:
        try:
            return self.ask(Look()).ok
        except OSError:
            return False

    def over(self, seconds: float = 120) -> RunSnapshot:
        """Wait for the recording's end."""
        self._thread.join(seconds)
        assert self.result is not None, "the run does not end"
        return self.result

    def send(self, data: bytes) -> SwapAnswer:
        """One line, as it is; the answer."""
        return ask_at(self.path, data)

    def ask(self, record: SwapRecord) -> SwapAnswer:
        """Ask, whatever the answer."""
        return self.send(line_of(record))

    def tell(self, record: SwapRecord) -> SlotLook:
        """Ask for what must be done; how the slot stands then."""
        answer = self.ask(record)
        assert answer.ok, answer
        return answer.slots[0]

    def look(self) -> SlotLook:
        """How the slot stands."""
        return self.tell(Look(slot="m"))

    def wait(self, until: Callable[[], bool], seconds: float = 240) -> None:
        """Until something holds: a trial imports and opens a model in a process that runs a fifth of the time."""
        deadline = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < deadline, "did not happen in time"
            time.sleep(0.02)

    def opened(self, number: int, package: Path) -> SlotLook:
        """Have a candidate opened, and wait for what comes of it."""
        self.tell(Load(slot="m", release=release_of(number), package_dir=str(package)))
        self.wait(lambda: self._state() not in (None, CandidateState.LOADING))
        return self.look()

    def _state(self) -> CandidateState | None:
        candidate = self.look().candidate
        return None if candidate is None else candidate.state

    def in_use(self, release: str | None) -> SlotLook:
        """Wait until a release is in use."""
        self.wait(lambda: self.look().running.release == release)
        return self.look()
