"""How a latch, a change of state and a worker are told in the guard's status."""

from edge_runtime.guard.conditions import conditions_in
from edge_runtime.guard.memory import Change, Latch
from edge_runtime.guard.worker import Worker


def words(mask: int) -> list[str]:
    """The conditions of a mask by name."""
    return [condition.value for condition in conditions_in(mask)]


def of_latch(latch: Latch | None, now_ns: int) -> dict[str, object] | None:
    """What holds; None where nothing is latched."""
    if latch is None:
        return None
    return {
        "id": latch.id,
        "causes": words(latch.causes),
        "since_ms": _age_ms(latch.since_ns, now_ns),
    }


def of_change(change: Change, now_ns: int) -> dict[str, object]:
    """One change of state, by its age."""
    return {
        "ago_ms": _age_ms(change.at_ns, now_ns),
        "before": change.before.value,
        "state": change.after.value,
        "causes": words(change.causes),
        "latch": change.latch_id,
    }


def of_worker(worker: Worker, now_ns: int) -> dict[str, object]:
    """One row of the process table; its age is that of its last beat, or of the last sign that its start got on."""
    told = worker.beat or worker.progress
    return {
        "name": worker.row.name,
        "critical": worker.row.critical,
        "phase": worker.phase.value,
        "pid": worker.pid,
        "starts": worker.starts,
        "started_ms": None if worker.pid is None else _age_ms(worker.started_ns, now_ns),
        "crash_loop": worker.looping,
        "last_exit": worker.last_exit,
        "stage": None if told is None else told.stage,
        "age_ms": None if told is None else _age_ms(told.beat_ns, now_ns),
        "fault": None if worker.fault is None else worker.fault.value,
    }


def _age_ms(then_ns: int, now_ns: int) -> int:
    return (now_ns - then_ns) // 1_000_000
