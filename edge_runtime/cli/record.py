"""`edge-runtime record`: a run whose inputs are recorded, so that it can be replayed."""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from edge_runtime.config import LoadedConfig
    from edge_runtime.node.models import ReadyModel
    from edge_runtime.node.recording import RecordingWish
    from edge_runtime.policy import Policy
    from edge_runtime.recording import CameraRecorder, Ending

MOST_MIB = 1 << 20


def record(
    config: Annotated[Path, typer.Argument(help="Configuration file.")],
    folder: Annotated[Path, typer.Argument(help="Folder of the recording; new, or empty.")],
    frames: Annotated[
        bool,
        typer.Option(
            "--frames", help="Also the frames of cameras, where policy and class of data allow them."
        ),
    ] = False,
    mib: Annotated[
        int, typer.Option("--mib", min=1, max=MOST_MIB, help="Most that the recording takes, in MiB.")
    ] = 64,
    when_full: Annotated[
        str,
        typer.Option(
            "--when-full", metavar="stop|oldest", help="Then: end the recording, or drop its oldest part."
        ),
    ] = "stop",
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0.1, max=31_536_000, help="Record so long.")
    ] = None,
    events: Annotated[
        str | None,
        typer.Option("--events", metavar="FILE", help="Append events here as NDJSON; - is stdout."),
    ] = None,
    max_frames: Annotated[
        int | None,
        typer.Option("--max-frames", min=1, help="Take no more than so many frames of each camera."),
    ] = None,
    summary: Annotated[
        Path | None, typer.Option("--summary", metavar="FILE", help="Write the summary here as JSON.")
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
    """Run cameras, models and rules of one configuration, and record what they are given.

    Recorded is what was seen in each frame, not the frame: boxes, times, drops, silences, models, events, and the
    configuration without its credentials. Under a guard the monitor's readings and what the guard wrote down are
    recorded too. `edge-runtime replay` makes the same events of it again.

    A run that is not under a guard ends with its recording; a device goes on.
    """
    from edge_runtime.cli.run import Wishes, start
    from edge_runtime.errors import ConfigError
    from edge_runtime.node.recording import RecordingWish
    from edge_runtime.recording.folder import MIB
    from edge_runtime.recording.head import WhenFull

    if when_full not in {choice.value for choice in WhenFull}:
        raise ConfigError(f"--when-full takes stop or oldest, not {when_full}")
    wish = RecordingWish(folder, mib * MIB, WhenFull(when_full), frames, seconds)
    return start(config, events, Wishes(events, None, None, max_frames, summary, None, state, wish))


class Recording:
    """The recording of one run of cameras.

    Attributes:
        recorder: the run's tap, and a sink of its events; None where it cannot be recorded.
    """

    def __init__(
        self,
        loaded: "LoadedConfig",
        models: "Mapping[str, ReadyModel]",
        wish: "RecordingWish",
        state: Path | None,
        *,
        guarded: bool,
        stack: contextlib.ExitStack,
    ) -> None:
        from edge_runtime.clock import SystemClock
        from edge_runtime.errors import EdgeRuntimeError
        from edge_runtime.node.recording import record_cameras
        from edge_runtime.telemetry import get_logger

        self.recorder: CameraRecorder | None = None
        self._folder, self._guarded = wish.folder, guarded
        self._stop: Callable[[], None] | None = None
        self._ending: Ending | None = None
        try:
            policy = _policy(loaded, state) if wish.frames else None
            self.recorder, self._writer = record_cameras(
                loaded, models, wish, SystemClock(), policy=policy, on_end=self._ended
            )
        except EdgeRuntimeError as error:
            if not guarded:
                raise
            # a device is to see, whatever becomes of its recording
            get_logger().error("the cameras are not recorded", why=str(error))
            return
        stack.callback(self._writer.close)
        for why in self.recorder.without_pictures():
            get_logger().warning("no frames are recorded", why=why)

    def attach(self, request_stop: Callable[[], None]) -> None:
        """What ends the run with its recording; a device goes on without it."""
        if self._guarded:
            return
        self._stop = request_stop
        if self._ending is not None:
            request_stop()

    def troubles(self) -> list[str]:
        """End it; what is wrong with it, a sentence each."""
        if self.recorder is None:
            return []
        ending = self._writer.close()
        if ending.why not in ("disk", "defect"):
            return []
        return [f"{self._folder}: {ending.text}; the {ending.records} records before that can be replayed"]

    def notes(self) -> list[str]:
        """What a person must know of it although the run went on."""
        if self.recorder is None:
            return []
        ending = self._writer.close()
        told = [f"recorded: {ending.records} records in {self._folder}; {ending.text}"]
        told += [f"recording: {count} lost: {cause}" for cause, count in ending.lost.items()]
        return [*told, *self.recorder.without_pictures()]

    def _ended(self, ending: "Ending") -> None:
        self._ending = ending
        if self._stop is not None:
            self._stop()


def _policy(loaded: "LoadedConfig", state: Path | None) -> "Policy | None":
    """The policy in force, where one decides what leaves the device."""
    if loaded.config.delivery is None:
        return None
    from edge_runtime.clock import SystemClock
    from edge_runtime.gate.policy_file import PolicyFile
    from edge_runtime.node.places import policy_path, state_of

    place = state_of(loaded, state)
    return PolicyFile(policy_path(loaded, place), SystemClock(), place.assigned_policy).in_force().policy
