"""How updates stand, for people and tools: plain values, of a driver or of the files that a stopped one left."""

import contextlib
from pathlib import Path
from typing import Any

from edge_runtime.updates.machine import Ended, Journal, JournalLost, Moment, Work
from edge_runtime.updates.process.driver import Driver
from edge_runtime.updates.process.locks import persons_locks
from edge_runtime.updates.process.parts import JOURNAL
from edge_runtime.updates.process.reports import FOLDER, seq_of
from edge_runtime.updates.store import SlotState, read_slots

_MOST_TOLD = 8


def of_driver(driver: Driver) -> dict[str, Any]:
    """How a running one stands."""
    parts, journal = driver.parts, driver.memory.journal
    now, windows = Moment.now(parts.clock), parts.rules.windows
    slots = parts.store.slots()
    device = parts.around.device()
    is_open = windows.is_open(now.wall_ms)
    return {
        "running": True,
        "device": parts.device,
        "trouble": driver.trouble,
        "journal_lost": driver.memory.lost,
        "slots": {
            name: _slot(slots.of(name)) | {"in_use": _in_use(driver, name)} for name in sorted(parts.slots)
        },
        "works": [_work(work, now) for work in journal.works],
        "waiting": [
            {"seq": seq, "slot": slot, "code": code, "text": text}
            for seq, slot, code, text in driver.arrivals.waiting
        ],
        "ended": [_ended(one) for one in journal.ended[-_MOST_TOLD:]],
        "unsettled": list(driver.memory.reports.unsettled),
        "obstacle": None if device.obstacle is None else device.obstacle.value,
        "obstacle_text": device.obstacle_text,
        "window_open": is_open,
        "window_opens_ms": None if is_open else windows.opens_ms(now.wall_ms),
    }


def of_files(root: Path) -> dict[str, Any]:
    """How it was left by one that does not run.

    Args:
        root: `STATE/updates`.
    """
    journal, lost = read_journal(root)
    locks = persons_locks(root)
    return {
        "running": False,
        "journal_lost": lost,
        "slots": {name: _slot(state) for name, state in sorted(read_slots(root).slots.items())},
        "works": [_work(work, None) for work in journal.works],
        "ended": [_ended(one) for one in journal.ended[-_MOST_TOLD:]],
        "unsettled": _unsettled(root),
        "obstacle": "locked" if locks else None,
        "obstacle_text": "".join(f"locked by {one.name}: {one.reason}" for one in locks[:1]),
    }


def history(root: Path) -> list[dict[str, Any]]:
    """Assignments that ended on this device, the newest at the end; those that people may still ask about.

    Args:
        root: `STATE/updates`.
    """
    return [_ended(one) for one in read_journal(root)[0].ended]


def read_journal(root: Path) -> tuple[Journal, str | None]:
    """The journal on the disk, and why it cannot be read."""
    try:
        return Journal.decode((root / JOURNAL).read_bytes()), None
    except FileNotFoundError:
        return Journal(), None
    except (OSError, JournalLost) as error:
        return Journal(), getattr(error, "strerror", None) or str(error)


def _unsettled(root: Path) -> list[int]:
    """Assignments whose terminal report lies here; one that cannot be read is of none."""
    found = set()
    for path in (root / FOLDER).glob("*.terminal"):
        with contextlib.suppress(OSError):
            found.add(seq_of(path.read_bytes()))
    return sorted(seq for seq in found if seq is not None)


def _in_use(driver: Driver, slot: str) -> dict[str, Any] | None:
    view = driver.parts.taking(slot).look(slot)
    if view is None:
        return None
    used = view.in_use
    return {
        "release": used.release,
        "package": used.package,
        "seconds": round(used.seconds, 1),
        "frames": used.frames,
        "p95_ms": used.latency_p95_ms,
    }


def _slot(state: SlotState) -> dict[str, Any]:
    return {"active": state.active, "on_trial": state.trial, "last_good": state.last_good}


def _work(work: Work, now: Moment | None) -> dict[str, Any]:
    return {
        "seq": work.seq,
        "slot": work.slot,
        "action": work.assignment.action.value,
        "target": work.assignment.target,
        "rollout": work.assignment.rollout,
        "state": work.state.value,
        "for_s": None if now is None else work.entered.age_ms(now) // 1000,
        "code": None if work.code is None else work.code.value,
        "text": work.text,
    }


def _ended(one: Ended) -> dict[str, Any]:
    return {
        "seq": one.seq,
        "slot": one.slot,
        "action": one.action.value,
        "target": one.target,
        "rollout": one.rollout,
        "state": one.state.value,
        "left": one.left.value,
        "code": None if one.code is None else one.code.value,
        "text": one.text,
        "at_ms": one.at_ms,
        "report_no": one.report_no,
    }
