"""Begins recordings of the processes of this room: what their heads say, and where they lie.

The monitor records without the libraries that look at cameras: what needs them is imported where it is used.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge_runtime import __version__
from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.config import LoadedConfig
from edge_runtime.policy import Policy
from edge_runtime.protocol import DataClass
from edge_runtime.recording import (
    CameraFacts,
    CameraRecorder,
    Ending,
    Head,
    RecordingError,
    RecordingWriter,
    RoundRecorder,
    Stream,
    WhenFull,
    sight_facts,
)
from edge_runtime.recording.configuration import facts_of
from edge_runtime.recording.folder import LEAST_BYTES, MIB, MONITOR_SHARE, new_part
from edge_runtime.recording.permission import why_no_pictures

if TYPE_CHECKING:
    from edge_runtime.node.models import ReadyModel

_WAIT = ("every_frame", "real_time")
"""Pacings of recordings, whose frames wait until they are taken."""


@dataclass(frozen=True, slots=True)
class RecordingWish:
    """What is to be recorded.

    Attributes:
        folder: of the recording.
        bytes: most that it takes.
        when_full: what happens then.
        frames: also the frames of cameras, where that is allowed.
        seconds: it ends after so long; None: it does not.
    """

    folder: Path
    bytes: int
    when_full: WhenFull
    frames: bool = False
    seconds: float | None = None

    def arguments(self) -> list[str]:
        """The same as options of a command line, without the folder."""
        found = [f"--mib={self.bytes // MIB}", f"--when-full={self.when_full.value}"]
        found += ["--frames"] if self.frames else []
        return found if self.seconds is None else [*found, f"--seconds={self.seconds!r}"]


def record_cameras(
    loaded: LoadedConfig,
    models: "Mapping[str, ReadyModel]",
    wish: RecordingWish,
    clock: Clock,
    *,
    policy: Policy | None = None,
    on_end: Callable[[Ending], None] = lambda _: None,
) -> tuple[CameraRecorder, RecordingWriter]:
    """Begin to record the cameras of a run; the recorder is its tap, and a sink of its events.

    Args:
        loaded: the configuration.
        models: that look first.
        wish: what is to be recorded.
        clock: time.
        policy: in force; None where there is none.
        on_end: told from the writer's thread when the recording ends before the run.

    Raises:
        RecordingError: the folder cannot be used, or its bytes are used up.
        ConfigError: the configuration has changed since it was loaded.
    """
    guarded = loaded.config.is_device
    most_bytes = wish.bytes - wish.bytes // MONITOR_SHARE if guarded else wish.bytes
    cameras = {name: _camera(loaded, name, models, wish, policy) for name in loaded.config.cameras}
    classes = [camera.data_class or DataClass.UNKNOWN for camera in loaded.config.cameras.values()]
    most_careful = max(classes, key=lambda one: one.rank)
    place = new_part(wish.folder, Stream.CAMERAS, most_bytes, wish.when_full)
    head = _head(
        loaded,
        Stream.CAMERAS,
        clock,
        place.bytes,
        when_full=wish.when_full,
        data_class=most_careful,
        cameras=cameras,
    )
    writer = _writer(place.folder, head, clock, wish, on_end)
    return CameraRecorder(writer, cameras), writer


def record_rounds(
    loaded: LoadedConfig,
    wish: RecordingWish,
    clock: Clock,
    *,
    body: Mapping[str, Any] | None,
) -> tuple[RoundRecorder, RecordingWriter]:
    """Begin to record the rounds of a monitor; the recorder is their tap.

    Args:
        loaded: the configuration.
        wish: what is to be recorded; the monitor's share of its bytes is used.
        clock: time.
        body: profile of the guard's body, as plain data.

    Raises:
        RecordingError: the folder cannot be used, or its bytes are used up.
        ConfigError: the configuration has changed since it was loaded.
    """
    guarding = loaded.config.guarding
    most_bytes = max(LEAST_BYTES, wish.bytes // MONITOR_SHARE)
    place = new_part(wish.folder, Stream.MONITOR, most_bytes, wish.when_full)
    head = _head(
        loaded,
        Stream.MONITOR,
        clock,
        place.bytes,
        when_full=wish.when_full,
        data_class=guarding.monitor.data_class,
        body=body,
        arms_itself=guarding.profile is None and guarding.motion_gate is None,
    )
    writer = _writer(place.folder, head, clock, wish, lambda _: None)
    return RoundRecorder(writer), writer


def _camera(
    loaded: LoadedConfig,
    name: str,
    models: "Mapping[str, ReadyModel]",
    wish: RecordingWish,
    policy: Policy | None,
) -> CameraFacts:
    from edge_runtime.node.hot_swap.parts import sight_of  # noqa: PLC0415 - loads what runs models

    camera = loaded.config.cameras[name]
    without = ""
    if wish.frames:
        delivers = loaded.config.delivery is not None
        without = why_no_pictures(name, camera, delivers=delivers, policy=policy)
    return CameraFacts(
        model=camera.model,
        live=getattr(camera.source, "pacing", None) not in _WAIT,
        pictures=wish.frames and not without,
        without=without,
        sight=sight_facts(sight_of(models[camera.model])),
    )


def _head(loaded: LoadedConfig, stream: Stream, clock: Clock, most_bytes: int, **more: Any) -> Head:
    wall = clock.wall()
    return Head(
        stream=stream,
        runtime=__version__,
        device=loaded.config.device.name,
        boot_id=wall.boot_id,
        began_ns=clock.monotonic_ns(),
        began=wall.isoformat(),
        synced=wall.synced,
        utc_offset_s=time.localtime(wall.unix_ns / NS_PER_S).tm_gmtoff,
        bytes=most_bytes,
        config=facts_of(loaded),
        **more,
    )


def _writer(
    folder: Path, head: Head, clock: Clock, wish: RecordingWish, on_end: Callable[[Ending], None]
) -> RecordingWriter:
    try:
        return RecordingWriter(folder, head, clock, seconds=wish.seconds, on_end=on_end)
    except OSError as error:
        raise RecordingError(f"{folder} cannot be written: {error.strerror}") from None
