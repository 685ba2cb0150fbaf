"""Rollouts on one page: numbers for a monitoring system, what is under way, and what needs a person.

deploy/prometheus/rollouts.yml holds alerts on these numbers.
"""

from collections.abc import Mapping

from fleet_server.http.metrics import Gauges
from fleet_server.http.records import WarningAnswer
from fleet_server.http.rollout_records import RolloutHealthAnswer
from fleet_server.in_words import instant
from fleet_server.rollouts.numbers import Queue, RolloutNumbers
from fleet_server.rollouts.states import RolloutState

STANDS_STILL_MS = 120_000
"""The server looks at its rollouts each second."""

LATE_MS = 300_000
"""The server signs and publishes within seconds; what waits for longer is said."""

_Values = dict[tuple[tuple[str, str], ...], float]


def rollout_gauges(numbers: RolloutNumbers, stepped_ms: int | None) -> Gauges:
    """Values by name. Times are unix times in seconds, so that an age is `time()` less the value.

    Args:
        numbers: counted now.
        stepped_ms: when this process last had every rollout go on; None where it never did.
    """
    stepped: _Values = {} if stepped_ms is None else {(): stepped_ms / 1000}
    return {
        "fleet_rollouts_stepped_seconds": ("When every rollout was last looked at, unix time", stepped),
        "fleet_rollouts": (
            "Rollouts by state",
            _by("state", {s.value: n for s, n in numbers.rollouts.items()}),
        ),
        "fleet_rollout_stages": (
            "Stages of all rollouts by state: how often each verdict was given",
            _by("state", {state.value: count for state, count in numbers.stages.items()}),
        ),
        "fleet_rollout_devices": (
            "Devices of rollouts that are not over, by state",
            {
                (("rollout", one.rollout), ("state", state.value)): float(count)
                for one in numbers.open
                for state, count in one.devices.items()
            },
        ),
        "fleet_rollout_stuck_devices": (
            "Devices of rollouts that are not over which stayed in a state for too long",
            _by("rollout", {one.rollout: one.stuck for one in numbers.open}),
        ),
        "fleet_rollout_since_seconds": (
            "Since when a rollout that is not over is in its state, and why, unix time",
            {
                (
                    ("rollout", one.rollout),
                    ("state", one.state.value),
                    ("reason", one.code.value),
                ): one.since_ms / 1000
                for one in numbers.open
            },
        ),
        **_queue(
            "fleet_assignments_unsigned", "Assignments that are decided and not signed", numbers.unsigned
        ),
        **_queue(
            "fleet_desired_states_queued",
            "Devices whose desired state is not yet handed to the broker",
            numbers.unpublished,
        ),
        "fleet_release_metadata_version": (
            "Version of the newest signed metadata by role",
            _by("role", {role: one.version for role, one in numbers.metadata.items()}),
        ),
        "fleet_release_metadata_published_seconds": (
            "When the newest signed metadata of a role was published, unix time",
            _by("role", {role: one.published_ms / 1000 for role, one in numbers.metadata.items()}),
        ),
    }


def open_rollouts(numbers: RolloutNumbers) -> list[RolloutHealthAnswer]:
    """Rollouts that are not over, the oldest first."""
    return [
        RolloutHealthAnswer(
            id=one.rollout,
            name=one.name,
            state=one.state.value,
            since_ms=one.since_ms,
            working=one.working,
            stuck=one.stuck,
            waits_for_people=one.waits_for_people,
        )
        for one in numbers.open
    ]


def rollout_warnings(numbers: RolloutNumbers, stepped_ms: int | None, now_ms: int) -> list[WarningAnswer]:
    """What somebody should look at: rollouts that wait for a person, devices that are stuck, work that is left.

    Args:
        numbers: counted now.
        stepped_ms: as for `rollout_gauges`.
        now_ms: milliseconds since 1970.
    """
    found = []
    if stepped_ms is not None and now_ms - stepped_ms > STANDS_STILL_MS:
        text = f"none was looked at since {instant(stepped_ms)}: the server's log says why"
        found.append(_warning("rollouts", text))
    for one in numbers.open:
        if one.waits_for_people:
            act = "approve" if one.state is RolloutState.AWAITING_APPROVAL else "status"
            why = f": {one.reason}" if one.reason else ""
            text = f"{one.state.value.replace('-', ' ')} since {instant(one.since_ms)}{why}"
            found.append(_warning(one.rollout, f"{text}; fleet rollout {act} {one.rollout}"))
        if one.stuck:
            text = f"{one.stuck} of its devices are stuck; fleet rollout status {one.rollout} --devices stuck"
            found.append(_warning(one.rollout, text))
    for queue, what in (
        (numbers.unsigned, "assignments are not signed: this server may have no director's key"),
        (numbers.unpublished, "devices were not told what to run: the broker may be away"),
    ):
        if queue.oldest_ms is not None and now_ms - queue.oldest_ms > LATE_MS:
            found.append(_warning("rollouts", f"{queue.waiting} {what}, since {instant(queue.oldest_ms)}"))
    return found


def _warning(subject: str, text: str) -> WarningAnswer:
    return WarningAnswer(subject=subject, text=text)


def _queue(name: str, text: str, queue: Queue) -> Gauges:
    oldest: _Values = {} if queue.oldest_ms is None else {(): queue.oldest_ms / 1000}
    return {
        name: (text, {(): float(queue.waiting)}),
        f"{name}_oldest_seconds": (f"{text}: since when the oldest waits, unix time", oldest),
    }


def _by(label: str, counts: Mapping[str, float]) -> _Values:
    return {((label, name),): float(count) for name, count in counts.items()}
