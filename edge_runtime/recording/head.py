"""The head of a recording: what was recorded, with which configuration and models, and within which bounds.

It is written whole before the first record, so that a recording whose process was killed can still be read.
"""

import json
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import Self

from edge_runtime.durable import write_file
from edge_runtime.protocol import DataClass
from edge_runtime.protocol.event import Digest
from edge_runtime.protocol.wire import places
from edge_runtime.recording.errors import RecordingError

HEAD = "recording.json"
"""The head's file in the folder of a recording."""

FORMAT: Final = "edge-runtime recording"
VERSION: tuple[int, int] = (1, 0)
"""Major and minor version that this code writes; a newer minor one is read, another major one is refused."""

MAX_HEAD_BYTES = 4 * 1024 * 1024
"""A configuration has at most 1 MiB, and a model at most some thousand labels."""


class Stream(str, Enum):
    """Which process was recorded."""

    CAMERAS = "cameras"
    MONITOR = "monitor"


class WhenFull(str, Enum):
    """What happens when the bytes are used up: the recording ends, or its oldest part is dropped."""

    STOP = "stop"
    OLDEST = "oldest"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class SightFacts(_Record):
    """What the rules of a camera have to know of the model that looks, and of the smaller ones in its place.

    Attributes:
        score: at which detections count.
        digests: of the packages, by variant.
        labels: by variant.
        tracks_go_on: whether tracks of the lineup before go on.
    """

    score: float
    digests: Annotated[tuple[Digest, ...], Field(min_length=1)]
    labels: Annotated[tuple[tuple[str, ...], ...], Field(min_length=1)]
    tracks_go_on: bool = False


class CameraFacts(_Record):
    """One camera.

    Attributes:
        model: its name in the configuration.
        live: it does not wait: frames that are not taken in time are dropped.
        pictures: whether its frames were recorded, beside what was detected in them.
        without: why they were not, although they were asked for; empty otherwise.
        sight: of the models that looked first.
    """

    model: str
    live: bool
    pictures: bool = False
    without: str = ""
    sight: SightFacts


class ConfigFacts(_Record):
    """The configuration.

    Attributes:
        digest: of the device's configuration; events carry it.
        content: the configuration without credentials, references to secrets unresolved.
        whole: whether the content is all of it; otherwise what replaying needs.
    """

    digest: Digest
    content: Mapping[str, Any]
    whole: bool = True


class Head(_Record):
    """One recording of one process.

    Attributes:
        format: says what it is.
        v: (major, minor) of this format.
        stream: which process.
        runtime: version of the software that was recorded.
        device: its name.
        boot_id: the kernel's id of that boot; monotonic times are comparable within it.
        began_ns: CLOCK_MONOTONIC of the beginning.
        began: wall label of it.
        synced: whether the wall clock was synchronised.
        utc_offset_s: how far local time was ahead of UTC; schedules of rules go by it.
        data_class: the most sensitive of what is in it.
        bytes: most that its files take together.
        when_full: what happens then.
        config: the configuration.
        cameras: by name; none in the recording of a monitor.
        body: the profile of the guard's body, as plain data; None where there is no guard.
        arms_itself: whether that body, which cannot move, asks by itself to be armed.
    """

    format: Literal["edge-runtime recording"] = FORMAT
    v: tuple[int, int] = VERSION
    stream: Stream
    runtime: str
    device: str
    boot_id: str
    began_ns: int
    began: str
    synced: bool
    utc_offset_s: int = 0
    data_class: DataClass
    bytes: int
    when_full: WhenFull
    config: ConfigFacts
    cameras: Mapping[str, CameraFacts] = {}
    body: Mapping[str, Any] | None = None
    arms_itself: bool = False

    def write(self, folder: Path) -> None:
        """Put it into the folder of a recording.

        Raises:
            OSError: it cannot be written.
        """
        text = json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"
        write_file(folder / HEAD, text.encode(), 0o600)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The head in the folder of a recording.

        Raises:
            RecordingError: there is none, it cannot be read, or another major version wrote it.
        """
        path = folder / HEAD
        found = _json_of(path)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise RecordingError(f"{path} is no head of a recording: name a folder that `record` has written")
        major, minor = _version_of(found, path)
        try:
            return cls.model_validate(found, extra="ignore" if minor > VERSION[1] else "forbid")
        except ValidationError as error:
            raise RecordingError(
                f"{path} is damaged, or not what version {major}.{minor} is: {places(error)}"
            ) from None


def _json_of(path: Path) -> Any:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_HEAD_BYTES + 1)
    except FileNotFoundError:
        raise RecordingError(
            f"{path.parent} holds no recording: it has no {HEAD}; name a folder that `record` has written"
        ) from None
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > MAX_HEAD_BYTES:
        raise RecordingError(
            f"{path} is larger than {MAX_HEAD_BYTES >> 20} MiB: this is no head of a recording"
        )
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise RecordingError(f"{path} is not JSON: the head of this recording is damaged") from None


def _version_of(found: Mapping[str, Any], path: Path) -> tuple[int, int]:
    version = found.get("v")
    if not (isinstance(version, list) and len(version) == 2 and all(type(part) is int for part in version)):
        raise RecordingError(f"{path} declares no version `v: [major, minor]`: it is damaged")
    major, minor = version
    if major != VERSION[0]:
        raise RecordingError(
            f"{path} has version {major}.{minor} of the format, and this software reads {VERSION[0]}: "
            "replay it with the software that recorded it"
        )
    return major, minor
