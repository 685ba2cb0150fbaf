"""What devices say of their updates, into the database: in the transaction of whoever took the messages in."""

import hashlib
from collections.abc import Iterable, Sequence

from sqlalchemy.engine import Connection

from edge_runtime.protocol.update import DeviceFacts, StateReport
from fleet_server.director.desired import queue
from fleet_server.rollouts.absorbing import DeviceBooks, absorb
from fleet_server.rollouts.books import load, write
from fleet_server.storage.writing import ROLLOUT_LOCK, run, run_many, take_turn

_NEW_FACTS = "INSERT INTO device_facts (digest, body) VALUES (?, ?) ON CONFLICT (digest) DO NOTHING"
_STALE = "digest NOT IN (SELECT facts FROM device_updates)"


def take_reports(connection: Connection, device: str, reports: Sequence[StateReport], now_ms: int) -> None:
    """Keep what a device said, the oldest first; `take_many` does the same for many devices.

    Args:
        connection: of a writing transaction. It takes the turn of rollouts until its end.
        device: whose certificate the reports' signatures were verified by.
        reports: verified; one that names another device is passed over.
        now_ms: the server's wall clock, milliseconds since 1970.
    """
    take_many(connection, [(device, report) for report in reports], now_ms)


def take_many(connection: Connection, reports: Iterable[tuple[str, StateReport]], now_ms: int) -> None:
    """Keep what devices said: a few statements for all of them.

    What is said twice changes nothing. A terminal report is counted once for each assignment, and the device is
    told that it was; a report about an older assignment is written down there and changes nothing else. A report
    that says that another release runs than the one that was called healthy has its device counted as reverted.

    Args:
        connection: of a writing transaction. It takes the turn of rollouts until its end.
        reports: verified, each with the device that signed it; those of one device the oldest first.
        now_ms: the server's wall clock, milliseconds since 1970.
    """
    ours = [(device, report) for device, report in reports if report.device == device]
    if not ours:
        return
    take_turn(connection, ROLLOUT_LOCK)
    books = load(connection, ours)
    seen: dict[DeviceFacts, str] = {}
    for device, report in ours:
        if report.facts not in seen:
            seen[report.facts] = digest_of(report.facts)
        absorb(books[device], report, seen[report.facts])
    named = {book.known.facts for book in books.values() if book.known.changed}
    fresh = [(digest, _body(facts)) for facts, digest in seen.items() if digest in named]
    if fresh:
        run_many(connection, _NEW_FACTS, fresh)
    write(connection, books, now_ms)
    queue(connection, _with(books, "settled"), now_ms, again=_with(books, "again"))


def has_stale_facts(connection: Connection) -> bool:
    """Whether there is anything that devices said of themselves once, and none of them says any more."""
    return run(connection, f"SELECT 1 FROM device_facts WHERE {_STALE} LIMIT 1").first() is not None  # noqa: S608


def drop_stale_facts(connection: Connection) -> None:
    """Forget it: one device that says something else each time must not fill the table.

    Args:
        connection: of a writing transaction that has the turn of rollouts.
    """
    run(connection, f"DELETE FROM device_facts WHERE {_STALE}")  # noqa: S608


def digest_of(facts: DeviceFacts) -> str:
    """The key of a row of `device_facts`, hexadecimal."""
    return hashlib.sha256(facts.canonical_bytes()).hexdigest()


def _body(facts: DeviceFacts) -> str:
    return facts.canonical_bytes().decode()


def _with(books: dict[str, DeviceBooks], mark: str) -> set[str]:
    return {
        device for device, book in books.items() if any(getattr(a, mark) for a in book.assignments.values())
    }
