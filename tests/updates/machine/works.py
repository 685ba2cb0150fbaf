"""Works, views and moments for tables of the machine."""

from dataclasses import replace
from typing import Any

from edge_runtime.protocol.release import Opening, ReleaseKind, ReleaseTerms
from edge_runtime.protocol.swap import CandidateState
from edge_runtime.protocol.update import Assignment, UpdateAction, UpdateState
from edge_runtime.updates.machine import Moment, Rules, Seen, Work
from edge_runtime.updates.machine.observed import Candidate, InUse, SlotView
from edge_runtime.updates.machine.work import Before

NEW, OLD = "aa" * 32, "bb" * 32
RULES = Rules("cam-07")


def at(seconds: float = 0.0, boot: str = "b1", *, wall_s: float = 0.0, synced: bool = True) -> Moment:
    """So long after the machine's start; the wall clock at its own."""
    return Moment(
        boot_id=boot,
        boot_ms=int(seconds * 1000),
        wall_ms=int((1_790_000_000 + (wall_s or seconds)) * 1000),
        synced=synced,
    )


def terms(**changes: Any) -> ReleaseTerms:
    return ReleaseTerms(
        **{
            "kind": ReleaseKind.MODEL,
            "name": "detector",
            "counter": 2,
            "package": f"sha256:{NEW}",
            "total_bytes": 10,
            "salt": "5a" * 8,
            "openings": (Opening(basis_points=10_000),),
            **changes,
        }
    )


def assignment(seq: int = 1, slot: str = "detector", **changes: Any) -> Assignment:
    named: dict[str, Any] = {"target": "models/detector/2/bundle.json", "length": 10, "sha256": NEW}
    if changes.get("action") is UpdateAction.HOLD:
        named = {}
    return Assignment(
        **{
            "device": "cam-07",
            "key_sha256": "cc" * 32,
            "seq": seq,
            "slot": slot,
            "action": UpdateAction.INSTALL,
            "issued_ms": 1,
            "expires_ms": 2,
            **named,
            **changes,
        }
    )


def work(state: UpdateState = UpdateState.ACCEPTED, **changes: Any) -> Work:
    begun = state in (UpdateState.ACTIVATING, UpdateState.PROBATION, UpdateState.REVERTED)
    before = Before(process="p1", guard="g1", seconds=3600, frames=36_000, events=720, latency_p95_ms=20)
    found = Work(
        assignment=assignment(),
        terms=terms(),
        state=state,
        entered=at(),
        begun=begun,
        before=before if begun else None,
    )
    return found.model_copy(update=changes)


def view(release: str | None = OLD, candidate: Candidate | None = None, **figures: Any) -> SlotView:
    return SlotView(InUse(release, f"sha256:{OLD}", "p1", **figures), candidate)


def loaded(**changes: Any) -> Candidate:
    return replace(Candidate(NEW, CandidateState.LOADED), **changes)


def seen(seconds: float = 1.0, **changes: Any) -> Seen:
    found = Seen(now=at(seconds), wall_ms=at(seconds).wall_ms, view=view(), active=OLD, good=OLD)
    return replace(found, **changes)
