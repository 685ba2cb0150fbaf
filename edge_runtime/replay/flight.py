"""The flight recorder as a recording: what the guard of any device wrote down, also where nobody recorded anything.

It holds no readings and no body's profile. These come from the configuration, which has to be the device's.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.clock import NS_PER_MS, WallLabel
from edge_runtime.config import LoadedConfig
from edge_runtime.monitor.flight import Damage, FlightRecord, read_flight, segments
from edge_runtime.node.guarding import body_profile
from edge_runtime.recording import Head, Part, RecordingError, Standing, Stream, WhenFull
from edge_runtime.recording.configuration import facts_of
from edge_runtime.recording.head import HEAD


def is_flight(folder: Path) -> bool:
    """Whether a folder is that of a flight recorder, and not a part of a recording."""
    try:
        return folder.is_dir() and not (folder / HEAD).exists() and bool(segments(folder))
    except OSError:
        return False


def open_flight(folder: Path, loaded: LoadedConfig) -> list[Part]:
    """A part for each guard that wrote into a flight recorder, in their order.

    Args:
        folder: of the recorder, `guard/flight` in a state directory.
        loaded: configuration of the device; each part carries the digest of the one that ran then.

    Raises:
        RecordingError: nothing in it can be read.
        ConfigError: the profile that the configuration names cannot be used.
    """
    damage = Damage()
    lives: dict[str, list[FlightRecord]] = {}
    digests: dict[str, str] = {}
    running = ""
    for record in read_flight(folder, damage):
        ring = record.fields.get("ring")
        if record.kind == "start":
            running = str(record.fields.get("config", ""))
        if isinstance(ring, str):
            lives.setdefault(ring, []).append(record)
            digests[ring] = running or digests.get(ring, "")
    if not lives:
        raise RecordingError(f"no guard has written into {folder}, or nothing in it can be read")
    facts, body, guarding = facts_of(loaded), body_profile(loaded), loaded.config.guarding
    parts: list[Part] = []
    for ring, records in lives.items():
        first = records[0]
        known = digests[ring] or facts.digest
        head = Head(
            stream=Stream.MONITOR,
            runtime="unknown",
            device=loaded.config.device.name,
            boot_id=first.boot,
            began_ns=first.at_ns,
            began=WallLabel(first.wall_ms * NS_PER_MS, first.synced, first.boot).isoformat(),
            synced=first.synced,
            data_class=guarding.monitor.data_class,
            bytes=guarding.monitor.recorder.bytes,
            when_full=WhenFull.OLDEST,
            config=facts.model_copy(update={"digest": known, "whole": False}),
            body=body,
            arms_itself=guarding.profile is None and guarding.motion_gate is None,
        )
        parts.append(_Life(folder, head, tuple(records), damage.lines))
    return parts


@dataclass(frozen=True, slots=True)
class _Life(Part):
    """What one guard wrote down.

    Attributes:
        kept: its records.
        torn: damaged lines of the whole recorder.
    """

    kept: tuple[FlightRecord, ...] = ()
    torn: int = 0

    def records(self, standing: Standing) -> Iterator[FlightRecord]:
        """All records in their order, as a recording has them."""
        standing.damaged, standing.records = self.torn, len(self.kept)
        standing.first_ns, standing.last_ns = self.kept[0].at_ns, self.kept[-1].at_ns
        standing.text = "of the flight recorder"
        for number, record in enumerate(self.kept):
            yield FlightRecord(
                "flight",
                record.at_ns,
                record.wall_ms,
                record.synced,
                record.boot,
                {"n": number, "record": record.to_json()},
            )
