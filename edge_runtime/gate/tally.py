"""What the gate did, in numbers, and the sentences that a person must read. No content, only names and counts."""

import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from edge_runtime.gate.policy_file import START, InForce
from edge_runtime.policy import Decision, sentence
from edge_runtime.protocol import DecisionKind, EventRecord, Reason

MOST_CAMERAS = 64
"""Cameras counted by name; a device has fewer."""


@dataclass(frozen=True, slots=True)
class GateStatus:
    """The gate's numbers since it started.

    Attributes:
        decided: decisions by kind: keep, hold, send.
        reasons: decisions by reason; a decision may have several.
        accepted: events that the outbox has, by kind of decision.
        not_accepted: by reason, as the outbox said.
        overflowed: events that found no room in the ring, or could not be handed over before the end.
        waiting, waiting_bytes: in the ring now.
        unlabelled: held events by camera whose class is unknown.
        outbox_away: whether the last attempt to reach the outbox failed.
        policy: digest of the policy in force; None where there is none.
    """

    decided: dict[str, int]
    reasons: dict[str, int]
    accepted: dict[str, int]
    not_accepted: dict[str, int]
    overflowed: int
    waiting: int
    waiting_bytes: int
    unlabelled: dict[str, int]
    outbox_away: bool
    policy: str | None


@dataclass
class Tally:
    """Counts, written by the gate's thread and read by any."""

    decided: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    not_accepted: Counter[str] = field(default_factory=Counter)
    unlabelled: Counter[str] = field(default_factory=Counter)
    overflowed: int = 0
    outbox_away: bool = False
    in_force: InForce = field(default_factory=lambda: InForce(None))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def decision(self, decision: Decision, event: EventRecord) -> bool:
        """Count one; True when it is the first of its camera without a class."""
        with self._lock:
            self.decided[decision.kind.value] += 1
            self.reasons.update(reason.value for reason in decision.reasons)
            if Reason.CLASS_UNKNOWN not in decision.reasons:
                return False
            known = event.camera in self.unlabelled
            if known or len(self.unlabelled) < MOST_CAMERAS:
                self.unlabelled[event.camera] += 1
            return not known

    def accept(self, kind: DecisionKind) -> None:
        """The outbox has one."""
        with self._lock:
            self.accepted[kind.value] += 1

    def refuse(self, reason: str) -> None:
        """The outbox does not take one."""
        with self._lock:
            self.not_accepted[reason] += 1

    def overflow(self, count: int) -> None:
        """Events that never reached the outbox."""
        with self._lock:
            self.overflowed += count

    def status(self, waiting: int, waiting_bytes: int) -> GateStatus:
        """All of it at one moment."""
        with self._lock:
            policy = self.in_force.policy
            return GateStatus(
                dict(self.decided),
                dict(self.reasons),
                dict(self.accepted),
                dict(self.not_accepted),
                self.overflowed,
                waiting,
                waiting_bytes,
                dict(self.unlabelled),
                self.outbox_away,
                None if policy is None else policy.digest,
            )


def notices(
    status: GateStatus, in_force: InForce, policy_path: Path, configuration: Path | None = None
) -> list[str]:
    """Sentences for the summary of a run: what is held and why, and what to write.

    Args:
        status: of the gate.
        in_force: what decisions go by.
        policy_path: where the policy belongs.
        configuration: the file that names the cameras, where it is known.
    """
    found = []
    file = "" if configuration is None else f" in {configuration}"
    if in_force.policy is None and in_force.without is Reason.NO_POLICY:
        found.append(f"no policy: everything is held; write {policy_path} ({START})")
    elif in_force.policy is None:
        found.append(
            f"the policy cannot be used: everything is held; edge-runtime gate check {policy_path} says why"
        )
    found += [
        f"{camera}: {count} events held, their class is unknown; "
        f"write data_class: internal (or public, confidential, restricted) under cameras.{camera}{file}"
        for camera, count in sorted(status.unlabelled.items())
    ]
    held = status.decided.get(DecisionKind.HOLD.value, 0)
    if held:
        why = [
            reason
            for reason in sorted(status.reasons, key=lambda name: -status.reasons[name])
            if Reason(reason) in _HOLDS
        ]
        told = f" ({sentence(Reason(why[0]))})" if why else ""
        found.append(f"{held} events held{told}; edge-runtime gate list shows them")
    if status.overflowed:
        found.append(f"{status.overflowed} events never reached the outbox: it was away or too slow")
    refused = sum(status.not_accepted.values())
    if refused:
        why_not = ", ".join(f"{name} {count}" for name, count in sorted(status.not_accepted.items()))
        found.append(f"{refused} events not accepted by the outbox: {why_not}")
    return found


_HOLDS = frozenset(Reason) - {
    Reason.PERMITTED,
    Reason.NEVER_ESCALATE,
    Reason.COALESCED,
    Reason.EVIDENCE_NOT_PERMITTED,
    Reason.EVIDENCE_BUDGET_SPENT,
}
