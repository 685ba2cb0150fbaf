"""`edge-runtime run`: cameras, models and rules of one configuration, until they end or are told to.

A configuration of a device, with a `delivery` or a `guard` section, runs under the guard: this process becomes it,
and it starts the same command line anew for the cameras, beside the other processes.
"""

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from edge_runtime.errors import ConfigError, EdgeRuntimeError

if TYPE_CHECKING:
    from edge_runtime.annotation import Recorder, RecorderStatus
    from edge_runtime.cli.record import Recording
    from edge_runtime.cli.stopper import Stopper
    from edge_runtime.config import LoadedConfig
    from edge_runtime.engines.source import EngineSource
    from edge_runtime.events import NdjsonSink
    from edge_runtime.faults import Injector
    from edge_runtime.guard.page import SlotWriter
    from edge_runtime.node.assigned import Assigned
    from edge_runtime.node.camera import EventSink
    from edge_runtime.node.delivery import Delivery, DeliverySnapshot
    from edge_runtime.node.models import ReadyModel
    from edge_runtime.node.recording import RecordingWish
    from edge_runtime.node.snapshot import RunSnapshot
    from edge_runtime.telemetry.metrics import Metrics

SWITCH_INTERVAL_S = 0.0005
"""Python passes the interpreter from thread to thread every 5 ms by default, half a fast inference: the thread
that feeds the model would wait that long behind another's bookkeeping."""


class RunFailed(EdgeRuntimeError):
    """A camera failed for good, or what was asked for could not be written."""


def run(
    config: Annotated[Path, typer.Argument(help="Configuration file.")],
    events: Annotated[
        str | None,
        typer.Option("--events", metavar="FILE", help="Append events here as NDJSON; - is stdout."),
    ] = None,
    annotate: Annotated[
        Path | None,
        typer.Option("--annotate", metavar="FILE", help="Write an annotated video; one for each camera."),
    ] = None,
    sheet: Annotated[
        Path | None,
        typer.Option("--contact-sheet", metavar="FILE", help="Write a PNG with a tile for each event."),
    ] = None,
    max_frames: Annotated[
        int | None,
        typer.Option("--max-frames", min=1, help="Take no more than so many frames of each camera."),
    ] = None,
    summary: Annotated[
        Path | None, typer.Option("--summary", metavar="FILE", help="Write the summary here as JSON.")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="HOST:PORT", help="Serve Prometheus metrics here.")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="DIR",
            help="State directory, for the configuration of a device and for TensorRT engines.",
        ),
    ] = None,
) -> int:
    """Run cameras, models and rules of one configuration; under the guard where it is that of a device."""
    return start(config, events, Wishes(events, annotate, sheet, max_frames, summary, metrics, state))


def start(config: Path, events: str | None, wishes: "Wishes") -> int:
    """Run a configuration: in this process, or as the guard that starts the others.

    Args:
        config: file of the configuration.
        events: as given on the command line; the configured file without it.
        wishes: what the command line asks for.
    """
    from edge_runtime.cli.outputs import refuse_collisions
    from edge_runtime.config import load_config
    from edge_runtime.guard.page import SlotWriter
    from edge_runtime.telemetry import configure_logging

    loaded, state = load_config(config), wishes.state
    if state is not None and not loaded.config.keeps_state:
        raise ConfigError(
            "--state means nothing here: the configuration has no delivery and no guard section, and no model "
            "with tensorrt among its providers"
        )
    configure_logging(loaded.config.logging.level, loaded.config.logging.format)
    wishes = replace(wishes, events=events if events is not None else _events_file(loaded))
    refuse_collisions(config, wishes.files())
    beats = SlotWriter.from_environment()
    if wishes.recording is not None and not loaded.config.is_device:
        from edge_runtime.recording.folder import require_fresh

        require_fresh(wishes.recording.folder)  # a device adds a part to what is there at each start
    if beats is None and loaded.config.is_device:
        _become_guard(loaded, wishes)
    return _watch(loaded, wishes, beats)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line asks for beside the configuration; see the options of `run` and `record`."""

    events: str | None
    annotate: Path | None
    sheet: Path | None
    max_frames: int | None
    summary: Path | None
    metrics: str | None
    state: Path | None
    recording: "RecordingWish | None" = None

    def files(self) -> dict[str, str | Path | None]:
        """What is written, by the name of its option."""
        return {
            "events": self.events,
            "annotate": self.annotate,
            "contact-sheet": self.sheet,
            "summary": self.summary,
        }

    def arguments(self, config: Path) -> list[str]:
        """The command line that asks for the same."""
        options = {
            **self.files(),
            "max-frames": self.max_frames,
            "metrics": self.metrics,
            "state": self.state,
        }
        given = [f"--{name}={value}" for name, value in options.items() if value is not None]
        if self.recording is None:
            return ["run", *given, "--", str(config)]
        return ["record", *given, *self.recording.arguments(), "--", str(config), str(self.recording.folder)]

    def monitor_arguments(self) -> list[str]:
        """The same for the monitor's process."""
        wish = self.recording
        return (
            [] if wish is None else ["--record", str(wish.folder), *replace(wish, frames=False).arguments()]
        )


def _become_guard(loaded: "LoadedConfig", wishes: Wishes) -> NoReturn:
    """Check what the cameras' process would refuse, and turn into the guard that starts it."""
    from edge_runtime.cli.manifests import manifest_problems, readable_manifests
    from edge_runtime.guard.client import become
    from edge_runtime.node.guarding import compile_settings, guard_problems, is_finite
    from edge_runtime.node.places import state_of

    place = state_of(loaded, wishes.state)
    manifests, unreadable = readable_manifests(loaded)
    problems = [*unreadable, *manifest_problems(loaded, manifests)]
    loaded.refuse([*problems, *guard_problems(loaded, place)])
    limited = wishes.max_frames is not None
    finite = all(is_finite(camera, limited=limited) for camera in loaded.config.cameras.values())
    settings = compile_settings(
        loaded,
        place.ensure(),
        wishes.arguments(loaded.path),
        finite=finite,
        monitor=wishes.monitor_arguments(),
    )
    try:
        become(settings)
    except OSError as error:
        raise EdgeRuntimeError(f"the guard cannot be started: {error.strerror}") from None


def _watch(loaded: "LoadedConfig", wishes: Wishes, beats: "SlotWriter | None") -> int:
    """Look at the cameras in this process; under a guard, show it what was finished."""
    from edge_runtime.cli.live import live_view
    from edge_runtime.cli.stopper import Stopper
    from edge_runtime.events import NdjsonSink
    from edge_runtime.lifeline import die_with_parent
    from edge_runtime.node.assigned import assigned_at_start
    from edge_runtime.node.node import Node
    from edge_runtime.node.places import exchange_places

    if beats is not None:
        die_with_parent()
    _settle_in()
    with contextlib.ExitStack() as stack:
        stopper = stack.enter_context(Stopper())
        files = [NdjsonSink(wishes.events)] if wishes.events is not None else []
        for sink in files:
            stack.callback(sink.close)
        updates, socket = exchange_places(loaded, wishes.state)
        assigned = assigned_at_start(loaded, updates)
        loaded = assigned.loaded
        numbers = stack.enter_context(_serving(wishes.metrics, loaded.digest))
        engines = _engines(loaded, wishes.state, beats, stopper)
        assigned, models = _opened(assigned, engines, updates, numbers, stack)
        loaded = assigned.loaded
        recorders = _recorders(loaded, models, wishes.annotate, wishes.sheet)
        for recorder in recorders.values():
            stack.callback(recorder.close)
        if beats is not None and numbers is not None:
            _show_guard(numbers, loaded, wishes.state)
        road = _delivery(loaded, wishes.state, numbers)
        recording = _recording(loaded, models, wishes, stack, guarded=beats is not None)
        tap = None if recording is None else recording.recorder
        sinks: list[EventSink] = [*files, *([road] if road else []), *([tap] if tap else [])]
        node = Node(
            loaded,
            models,
            sinks=sinks,
            observers=recorders,
            metrics=numbers,
            max_frames=wishes.max_frames,
            beats=beats,
            engines=engines,
            swap_socket=socket,
            assigned=None if updates is None else (assigned, updates),
            faults=_faults(loaded, wishes.state),
            tap=tap,
        )
        stopper.attach(node.request_stop)
        if recording is not None:
            recording.attach(node.request_stop)
        delivered = None
        with live_view(node, quiet=wishes.events == "-", title=loaded.config.device.name):
            if road is not None:
                road.start(node.snapshot)
            try:
                result = node.run()
            finally:
                delivered = road.close() if road is not None else None
        drawn = {name: recorder.close() for name, recorder in recorders.items()}
    return _concluded(result, wishes, files, drawn, delivered, recording)


def _concluded(
    result: "RunSnapshot",
    wishes: Wishes,
    files: "Sequence[NdjsonSink]",
    drawn: "Mapping[str, RecorderStatus]",
    delivered: "DeliverySnapshot | None",
    recording: "Recording | None",
) -> int:
    """Write and print the summary; the exit code.

    Raises:
        RunFailed: something failed for good, or what was asked for could not be written.
    """
    from edge_runtime.cli.live import print_summary
    from edge_runtime.cli.outputs import summary_json, write_summary

    troubles = [f"{sink.failed} events lost: {sink.trouble}" for sink in files if sink.failed]
    troubles += [status.error for status in drawn.values() if status.error]
    troubles += [] if recording is None else recording.troubles()
    if wishes.summary is not None:
        lost = sum(sink.failed for sink in files)
        troubles += write_summary(wishes.summary, summary_json(result, events_lost=lost, delivery=delivered))
    print_summary(
        result,
        to_stderr=wishes.events == "-",
        files=_written(wishes, drawn),
        notes=[
            *_notes(result, drawn),
            *(delivered.notices if delivered else ()),
            *(recording.notes() if recording else ()),
        ],
        delivery=delivered,
    )
    problems = [text for text in (*_failures(result), *troubles) if text]
    if problems:
        raise RunFailed("\n".join(problems))
    return 0


def _recording(
    loaded: "LoadedConfig",
    models: "Mapping[str, ReadyModel]",
    wishes: Wishes,
    stack: contextlib.ExitStack,
    *,
    guarded: bool,
) -> "Recording | None":
    """The recording of this run, where one is wanted."""
    if wishes.recording is None:
        return None
    from edge_runtime.cli.record import Recording

    return Recording(loaded, models, wishes.recording, wishes.state, guarded=guarded, stack=stack)


def _faults(loaded: "LoadedConfig", state: Path | None) -> "Injector | None":
    from edge_runtime.clock import SystemClock
    from edge_runtime.node.fault_orders import fault_injector

    return fault_injector(loaded, state, SystemClock())


def _opened(
    assigned: "Assigned",
    engines: "EngineSource",
    updates: Path | None,
    numbers: "Metrics | None",
    stack: contextlib.ExitStack,
) -> "tuple[Assigned, Mapping[str, ReadyModel]]":
    """The models of the configuration, with what is to be said about them, and what holds then.

    They are closed by `stack`.
    """
    from edge_runtime.cli.manifests import manifest_problems
    from edge_runtime.node.assigned import fitting, manifests_at_start
    from edge_runtime.node.engines import let_others_go
    from edge_runtime.node.models import load_models

    loaded = assigned.loaded
    loaded.refuse(manifest_problems(loaded, manifests_at_start(loaded, updates)))
    models = load_models(loaded, engines, updates)
    for ready in models.values():
        stack.callback(ready.close)
    let_others_go(loaded, engines)
    _warn(loaded, models)
    if numbers is not None:
        _show_models(numbers, models)
    assigned, models = fitting(assigned, updates, models)
    if numbers is not None:
        numbers.configured(assigned.loaded.digest)
    return assigned, models


def _engines(
    loaded: "LoadedConfig", state: Path | None, beats: "SlotWriter | None", stopper: "Stopper"
) -> "EngineSource":
    """Where TensorRT's engines come from; a build tells the log, and the guard that the start gets on."""
    from edge_runtime.node.engines import engine_source, log_progress

    progress = log_progress((lambda _stage: None) if beats is None else beats.starting)
    return engine_source(loaded, state, progress, stop=lambda: stopper.asked)


def _show_models(numbers: "Metrics", models: "Mapping[str, ReadyModel]") -> None:
    """What runs each model, and what it took to get there."""
    for name, ready in models.items():
        facts = ready.model.backend.facts
        numbers.model(
            name, f"{facts.backend} {facts.version}", facts.effective, degraded=facts.degraded is not None
        )
        for opening in ready.openings:
            supply = opening.tensorrt.supply
            numbers.engines(name, built=supply.built, seconds=supply.seconds, quarantined=supply.quarantined)


def _settle_in() -> None:
    """What holds for this whole process."""
    import cv2

    from edge_runtime.lifeline import leave_no_core

    cv2.setNumThreads(1)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    leave_no_core()


def _show_guard(numbers: "Metrics", loaded: "LoadedConfig", state: Path | None) -> None:
    """The guard's numbers beside those of the cameras."""
    from edge_runtime.node.places import state_of
    from edge_runtime.node.workers import ask_guard

    place = state_of(loaded, state)
    numbers.watch_guard(lambda: ask_guard(place))


def _delivery(loaded: "LoadedConfig", state: Path | None, numbers: "Metrics | None") -> "Delivery | None":
    """The way out, where the configuration has one."""
    if loaded.config.delivery is None:
        return None
    from edge_runtime.clock import SystemClock
    from edge_runtime.node.delivery import Delivery
    from edge_runtime.node.places import state_of

    return Delivery(loaded, state_of(loaded, state), SystemClock(), numbers)


def _written(wishes: Wishes, drawn: "Mapping[str, RecorderStatus]") -> dict[str, str]:
    """What the run left, by kind; with several cameras, videos and sheets carry their names."""
    has_video = any(status.video_written for status in drawn.values())
    has_sheet = any(status.sheet_written for status in drawn.values())
    found = {
        "events": wishes.events,
        "video": wishes.annotate if has_video else None,
        "contact sheet": wishes.sheet if has_sheet else None,
        "summary": wishes.summary,
    }
    return {kind: str(path) for kind, path in found.items() if path is not None and path != "-"}


def _events_file(loaded: "LoadedConfig") -> str | None:
    """The configured file, relative to the configuration."""
    name = loaded.config.events.file
    return name if name is None or name == "-" else str(loaded.resolve(name))


def _failures(result: "RunSnapshot") -> list[str]:
    """What failed for good: cameras that cannot be opened, models that never answered."""
    found = []
    for name, camera in result.cameras.items():
        unanswered = {why: n for why, n in camera.not_evaluated.items() if why not in ("dark", "frozen")}
        if camera.state == "failed":
            found.append(f"camera {name}: {camera.error}")
        elif unanswered and not camera.evaluated:
            causes = ", ".join(f"{why.replace('_', ' ')} {count}" for why, count in unanswered.items())
            found.append(f"camera {name}: its model answered for no frame ({causes}): {camera.last_text}")
    return found


def _notes(result: "RunSnapshot", drawn: "Mapping[str, RecorderStatus]") -> list[str]:
    """What a person must know although the run went on."""
    notes = [f"model {name} is degraded: {m.degraded}" for name, m in result.models.items() if m.degraded]
    for name, camera in result.cameras.items():
        held_back = sum(camera.suppressed.values())
        counted = {
            "events held back by a cooldown or a rate cap": held_back,
            "events late, not to be acted on": camera.late,
            "events over the size cap, refused": camera.refused_too_large,
            "crops that could not be kept": camera.evidence_failed,
            "damaged frames": camera.damaged,
            "candidates with non-finite values": camera.nonfinite,
        }
        notes += [f"{name}: {count} {what}" for what, count in counted.items() if count]
    notes += [
        f"{name}: {status.dropped} frames are not in the video: it was behind the camera"
        for name, status in drawn.items()
        if status.dropped
    ]
    return notes


def _warn(loaded: "LoadedConfig", models: "Mapping[str, ReadyModel]") -> None:
    """Say in the log what is allowed but regretted, and which model is slower than asked for."""
    from edge_runtime.telemetry import get_logger

    log = get_logger()
    for warning in loaded.warnings:
        log.warning("configuration", at=warning.path, text=warning.text)
    for name, ready in models.items():
        for model in (ready.model, *ready.variants):
            facts = model.backend.facts
            if facts.degraded is not None:
                log.warning("model degraded", model=name, reason=facts.degraded)
            if facts.note is not None:
                log.warning("model", model=name, text=facts.note)
        for opening in ready.openings:
            for reason in opening.tensorrt.supply.found_wrong:
                log.warning("engine taken out of use", model=name, reason=reason)
            for text in opening.tensorrt.warnings:
                log.warning("model memory", model=name, text=text)


@contextlib.contextmanager
def _serving(address: str | None, digest: str) -> Iterator["Metrics | None"]:
    if address is None:
        yield None
        return
    from edge_runtime.telemetry.metrics import Metrics, parse_address

    numbers = Metrics(digest)
    with numbers.serve(*parse_address(address)):
        yield numbers


def _recorders(
    loaded: "LoadedConfig", models: "Mapping[str, ReadyModel]", video: Path | None, sheet: Path | None
) -> "dict[str, Recorder]":
    """One recorder for each camera, when a video or a contact sheet is wanted."""
    if video is None and sheet is None:
        return {}
    from edge_runtime.annotation import Annotator, ContactSheet, Recorder, VideoWriter
    from edge_runtime.node.models import plays_every_frame

    recorders = {}
    for name, camera in loaded.config.cameras.items():
        alone = len(loaded.config.cameras) == 1
        labels = models[camera.model].model.manifest.labels
        recorders[name] = Recorder(
            Annotator(labels, camera.rules, camera.masks, trail_s=1.5),
            video=None if video is None else VideoWriter(_own(video, name, alone=alone)),
            sheet=None if sheet is None else ContactSheet(),
            sheet_path=None if sheet is None else _own(sheet, name, alone=alone),
            title=f"{loaded.config.device.name} / {name}",
            wait=plays_every_frame(camera),
        )
    return recorders


def _own(path: Path, camera: str, *, alone: bool) -> Path:
    """The path itself for a single camera, else with the camera's name before the suffix."""
    return path if alone else path.with_name(f"{path.stem}-{camera}{path.suffix}")
