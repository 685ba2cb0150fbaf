"""A recording through one component, or through all that was recorded, and what that is compared with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from edge_runtime.clock import NS_PER_S
from edge_runtime.config.load import digest
from edge_runtime.config.node import NodeConfig
from edge_runtime.guard.profile import ProfileError, from_json
from edge_runtime.monitor.changes import FAULT_RULE, GUARD_RULE, Labels
from edge_runtime.monitor.conditions import evaluated_by
from edge_runtime.monitor.flight import FlightRecord
from edge_runtime.protocol import EventRecord
from edge_runtime.recording import ConfigFacts, OtherRecording, Part, RecordingError, Standing, Stream
from edge_runtime.recording.configuration import parsed
from edge_runtime.replay.cameras import replay_cameras
from edge_runtime.replay.clock import local_time
from edge_runtime.replay.diff import FROM_ANOTHER_RUN, Difference, Kind, Tolerance, compare, within
from edge_runtime.replay.guard import SHIFT_S, replay_guard
from edge_runtime.replay.health import MONITOR_RULE, HealthReplayed, replay_health
from edge_runtime.replay.perception import Agreement, Perception


class Component(str, Enum):
    """What recorded inputs go through."""

    RULES = "rules"
    PERCEPTION = "perception"
    HEALTH = "health"
    GUARD = "guard"
    DEVICE = "device"


_WITHIN_S = 0.05
"""An end is noticed within a turn of the loop."""

_SELVES = {GUARD_RULE: Component.GUARD, FAULT_RULE: None, MONITOR_RULE: Component.HEALTH}
"""What a device says of itself, by rule; all else comes from the rules of cameras."""

TOLERANCES: Mapping[Component, Tolerance] = {
    Component.RULES: Tolerance(shift_s=_WITHIN_S),
    Component.PERCEPTION: Tolerance(shift_s=_WITHIN_S),
    Component.HEALTH: Tolerance(FROM_ANOTHER_RUN | {"reason"}, shift_s=_WITHIN_S),
    Component.GUARD: Tolerance(apart_s=2 * SHIFT_S, shift_s=SHIFT_S),
}
"""What counts as the same, by component; see docs/replay.md."""

LookerOf = Callable[[Part], Perception]


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be replayed, and how.

    Attributes:
        component: what the inputs go through.
        config: in place of the recording's own.
        anyway: also where configuration or model are not those of the recording.
        from_s, until_s: seconds from the recording's beginning.
        looker: makes what looks at the frames of a part anew.
    """

    component: Component = Component.DEVICE
    config: ConfigFacts | None = None
    anyway: bool = False
    from_s: float = 0.0
    until_s: float | None = None
    looker: LookerOf | None = None


@dataclass
class Played:
    """What came of one component.

    Attributes:
        events: of the replay.
        recorded: that the recording holds.
        first_ns: of its first record, where what was before is not known; None where it is.
        blind: times, from and until, of which nobody knows what the device made of them: where a part was cut off.
    """

    events: list[EventRecord] = field(default_factory=list)
    recorded: list[EventRecord] = field(default_factory=list)
    first_ns: int | None = None
    blind: list[tuple[int, int | None]] = field(default_factory=list)

    def sees(self, standing: Standing) -> None:
        """Another part begins, and with it what is known."""
        if self.blind and self.blind[-1][1] is None:
            self.blind[-1] = self.blind[-1][0], standing.first_ns

    def knows(self, one: Difference) -> bool:
        """Whether a difference is one, and not only the end of a part."""
        at_ns = one.event.at.monotonic_ns
        beyond = any(first <= at_ns and (last is None or at_ns < last) for first, last in self.blind)
        return not beyond or one.kind in (Kind.CHANGED, Kind.SHIFTED)


@dataclass
class Replayed:
    """What came of a recording.

    Attributes:
        by: component.
        standings: of its parts, in their order.
        frames: looked at, by camera.
        refused: records that are not what they should be.
        agreement: of frames looked at anew with what was recorded; None where none was.
        base_ns: CLOCK_MONOTONIC of the recording's beginning.
    """

    by: dict[Component, Played] = field(default_factory=dict)
    standings: list[tuple[Part, Standing]] = field(default_factory=list)
    frames: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    agreement: Agreement | None = None
    base_ns: int = 0

    @property
    def events(self) -> list[EventRecord]:
        """All events, component by component."""
        return [event for played in self.by.values() for event in played.events]

    @property
    def recorded(self) -> list[EventRecord]:
        """All events that the recording holds."""
        return [event for played in self.by.values() for event in played.recorded]

    def differences(self, expected: Sequence[EventRecord] | None = None) -> list[Difference]:
        """What differs from a reference; from what the recording holds without one."""
        found: list[Difference] = []
        for component, played in self.by.items():
            tolerance = TOLERANCES[component]
            if played.first_ns is not None:  # ids of tracks count from where it begins
                tolerance = Tolerance(tolerance.ignored | {"track"}, tolerance.apart_s, tolerance.shift_s)
            reference = played.recorded if expected is None else _of(component, expected)
            told = compare(
                within(reference, played.first_ns), within(played.events, played.first_ns), tolerance
            )
            found += [one for one in told if played.knows(one)]
        return found


def replay(parts: Sequence[Part], wish: Wish) -> Replayed:
    """Replay a recording.

    Args:
        parts: from `open_recording`.
        wish: what is to be replayed.

    Raises:
        OtherRecording: it is one of another configuration, and nobody wants it anyway.
        RecordingError: it does not hold what is needed, or cannot be used.
        ConfigError: the rules cannot be used with the recorded labels.
    """
    boot_id = parts[0].head.boot_id
    result = Replayed(base_ns=min(part.head.began_ns for part in parts if part.head.boot_id == boot_id))
    for part in parts:
        config = _configuration(part, wish)
        with local_time(part.head.utc_offset_s):
            if part.head.stream is Stream.CAMERAS and _wants(wish, Component.RULES, Component.PERCEPTION):
                _cameras(result, part, config, wish)
            elif part.head.stream is Stream.MONITOR and _wants(wish, Component.HEALTH, Component.GUARD):
                _monitor(result, part, config, wish)
    if not result.standings:
        held = " and ".join(sorted({part.head.stream.value for part in parts}))
        raise RecordingError(
            f"this recording is one of {held}: there is nothing in it for --part {wish.component.value}"
        )
    return result


@dataclass(frozen=True, slots=True)
class _Configuration:
    """What a part is replayed with."""

    node: NodeConfig
    digest: str


def _configuration(part: Part, wish: Wish) -> _Configuration:
    """The configuration that holds.

    Raises:
        OtherRecording: it is not that of the recording.
    """
    recorded = part.head.config
    if recorded.whole and digest(recorded.content) != recorded.digest and not wish.anyway:
        raise RecordingError(
            f"the configuration in {part.folder} was changed after it was recorded: add --anyway to use it"
        )
    chosen = wish.config or recorded
    if chosen.digest != recorded.digest and not wish.anyway:
        raise OtherRecording(
            f"{part.folder} was recorded with configuration {recorded.digest}, and --config names {chosen.digest}: "
            "add --anyway to see what this one would have made of it"
        )
    return _Configuration(parsed(chosen), chosen.digest)


def _wants(wish: Wish, *components: Component) -> bool:
    return wish.component is Component.DEVICE or wish.component in components


def _cameras(result: Replayed, part: Part, config: _Configuration, wish: Wish) -> None:
    looks = None
    if wish.component is Component.PERCEPTION:
        if not any(camera.pictures for camera in part.head.cameras.values()):
            raise RecordingError(
                f"{part.folder} holds no frames, only what was seen in them: record with --frames to look anew"
            )
        if wish.looker is None:
            raise RecordingError(
                "looking at frames anew needs the models: name their configuration with --config"
            )
        looks = wish.looker(part)
    standing = Standing()
    found = replay_cameras(
        cut(part, standing, wish, result.base_ns), part.head.cameras, config.node, config.digest, looks
    )
    component = Component.RULES if looks is None else Component.PERCEPTION
    played = _note(result, component, part, standing, wish)
    played.events += found.events
    played.recorded += found.recorded
    if found.last_ns is not None and (standing.why != "closed" or wish.until_s is not None):
        played.blind.append((found.last_ns, None))
    result.refused += found.refused
    for name, count in found.frames.items():
        result.frames[name] = result.frames.get(name, 0) + count
    if looks is not None:
        result.agreement = result.agreement or Agreement()
        result.agreement.join(looks.agreement)


def _monitor(result: Replayed, part: Part, config: _Configuration, wish: Wish) -> None:
    """Health first: what it finds goes into the guard."""
    settings = config.node.guarding.monitor
    standing = Standing()
    records = list(cut(part, standing, wish, result.base_ns))
    health: HealthReplayed = replay_health(records, settings, config.digest)
    result.refused += health.refused
    if _wants(wish, Component.HEALTH):
        played = _note(result, Component.HEALTH, part, standing, wish)
        played.events += health.events
        played.recorded += health.recorded
    if not _wants(wish, Component.GUARD):
        return
    if part.head.body is None and wish.component is Component.DEVICE:
        return
    if part.head.body is None:
        raise RecordingError(
            f"{part.folder} does not say what the guard's body allows: record anew under a guard"
        )
    try:
        profile = from_json(dict(part.head.body))
    except ProfileError as error:
        raise RecordingError(f"the profile of the body in {part.folder} cannot be used: {error}") from None
    guard = replay_guard(
        records,
        profile,
        Labels(settings.data_class, config.digest),
        arms_itself=part.head.arms_itself,
        rounds=health.rounds,
        looks_at=evaluated_by(settings),
    )
    result.refused += guard.refused
    played = _note(result, Component.GUARD, part, standing, wish)
    played.events += guard.events
    played.recorded += guard.recorded
    if standing.last_ns is not None:  # what comes at the very end may come a little beyond it here
        played.blind.append((standing.last_ns - int(SHIFT_S * NS_PER_S), None))


def _note(result: Replayed, component: Component, part: Part, standing: Standing, wish: Wish) -> Played:
    """Where the results of a component go."""
    if all(known is not part for known, _ in result.standings):
        result.standings.append((part, standing))
    played = result.by.setdefault(component, Played())
    played.sees(standing)
    if standing.begins or wish.from_s > 0:
        played.first_ns = standing.first_ns if played.first_ns is None else played.first_ns
    return played


def cut(part: Part, standing: Standing, wish: Wish, base_ns: int) -> Iterator[FlightRecord]:
    """The records of a part between two times; of what lies before, only which models looked.

    Args:
        part: of the recording.
        standing: see `Part.records`.
        wish: with the times.
        base_ns: CLOCK_MONOTONIC of the recording's beginning.
    """
    first_ns = base_ns + int(wish.from_s * NS_PER_S) if wish.from_s > 0 else None
    last_ns = None if wish.until_s is None else base_ns + int(wish.until_s * NS_PER_S)
    for record in part.records(standing):
        early = first_ns is not None and record.at_ns < first_ns
        if (early and record.kind != "lineup") or (last_ns is not None and record.at_ns > last_ns):
            continue
        yield record
    if first_ns is not None:
        standing.first_ns = max(first_ns, standing.first_ns or first_ns)
    if last_ns is not None:
        standing.last_ns = min(last_ns, standing.last_ns or last_ns)


def _of(component: Component, events: Sequence[EventRecord]) -> list[EventRecord]:
    """Those events of a file that this component makes."""
    own = Component.RULES if component is Component.PERCEPTION else component
    return [event for event in events if _SELVES.get(event.rule, Component.RULES) is own]
