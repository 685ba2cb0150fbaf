"""Speed of the outbox as ratios to F, the rate of append + fdatasync on the same disk in the same round.

    python -m tests.bench.bench_outbox [--rounds 7] [--seconds 0.3] [--peers]

All cases run in turn, round after round; quoted are medians over the rounds, because a disk's rate moves by a
factor from minute to minute. Aims are those that the issue sets.
"""

import argparse
import contextlib
import itertools
import os
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from edge_runtime.clock import NS_PER_S, SystemClock
from edge_runtime.collector import collect_rarely
from edge_runtime.outbox import Outbox, OutboxSettings, Submission
from edge_runtime.protocol.delivery import Receipt
from edge_runtime.protocol.vocabulary import DecisionKind
from edge_runtime.state import StateDirectory
from tests.bench.environments import ROOT, python_of
from tests.rigs.outbox import client, hand_out, process

BODY = os.urandom(282)
RECEIPT = os.urandom(250)
HOUR_NS = 3600 * NS_PER_S
SETTINGS = OutboxSettings(expiry_period_s=60)

SINGLE_ALONE, HUNDRED_ALONE = "sqlite3 alone, single", "sqlite3 alone, 100"

AIMS = {
    "put, 1 thread": 0.7,
    "put, 8 threads": 2.0,
    "put of 100": 12.0,
    "settle of 100": 15.0,
    "evict + insert, single": 0.6,
    "evict + insert, 64": 8.0,
    "expiry sweep": 30.0,
}


class Numbers:
    """Keys that were never used."""

    def __init__(self) -> None:
        self._next = 0
        self._lock = threading.Lock()

    def submissions(self, number: int, severity: int = 1, ttl_ns: int = HOUR_NS) -> list[Submission]:
        """New events of the usual size, each with its decision's receipt."""
        with self._lock:
            first = self._next
            self._next += number
        return [
            Submission(n.to_bytes(16, "big"), DecisionKind.SEND, severity, ttl_ns, BODY, receipt=RECEIPT)
            for n in range(first, first + number)
        ]


def rate(work: Callable[[], int], seconds: float) -> float:
    """How much `work` does in a second."""
    done, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        done += work()
    return done / (time.perf_counter() - begin)


def in_threads(number: int, work: Callable[[], int], seconds: float) -> float:
    """The same from several threads at once."""
    counts = [0] * number
    end = time.perf_counter() + seconds

    def run(index: int) -> None:
        while time.perf_counter() < end:
            counts[index] += work()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


def appends(folder: Path, seconds: float) -> float:
    """F: 316 bytes appended and fdatasync, in turn."""
    file = os.open(folder / "appended", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    record = bytes(316)

    def once() -> int:
        os.write(file, record)
        os.fdatasync(file)
        return 1

    try:
        return rate(once, seconds)
    finally:
        os.close(file)


class SqliteAlone:
    """A queue of one table with its count beside it, and nothing else: no check, no reader, no second caller.

    The least that SQLite has to write for an event that is counted: one page of each table.
    """

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.execute("CREATE TABLE queue (seq INTEGER PRIMARY KEY, key BLOB, body BLOB)")
        self._connection.execute("CREATE TABLE counted (n INTEGER PRIMARY KEY, events INTEGER, receipt BLOB)")
        self._connection.execute("INSERT INTO counted VALUES (1, 0, ?)", (RECEIPT,))
        self._keys = itertools.count()

    def put(self, number: int) -> int:
        """Insert events in one transaction; how many."""
        execute = self._connection.execute
        rows = [(bytearray(next(self._keys).to_bytes(16, "big")), bytearray(BODY)) for _ in range(number)]
        execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT INTO queue (key, body) VALUES (?, ?)", rows)
        execute("UPDATE counted SET events = events + ?, receipt = ?", (number, bytearray(RECEIPT)))
        execute("COMMIT")
        return number

    def close(self) -> None:
        """End."""
        self._connection.close()


class Cases:
    """One outbox for each kind of state that is measured.

    Args:
        folder: on the disk that is measured.
        seconds: for each case and round.
    """

    def __init__(self, folder: Path, seconds: float, stack: contextlib.ExitStack) -> None:
        self._folder, self._seconds, self._numbers = folder, seconds, Numbers()
        self._plain = self._open("plain", SETTINGS, stack)
        small = SETTINGS.model_copy(update={"quota_bytes": 4 * 1024 * 1024})
        self._full = self._open("full", small, stack)
        while self._full.status().ledger.evicted == 0:
            self._full.put(self._numbers.submissions(200))
        self._settled = self._open("settled", SETTINGS, stack)
        self._alone = SqliteAlone(folder / "alone.db")
        stack.callback(self._alone.close)
        state = StateDirectory(folder / "state").ensure()
        stack.enter_context(process(state, expiry_period_s=60))
        self._client = client(state)

    def _open(self, name: str, settings: OutboxSettings, stack: contextlib.ExitStack) -> Outbox:
        outbox = Outbox(self._folder / name / "outbox", settings, SystemClock())
        stack.callback(outbox.close)
        return outbox

    def run(self) -> Iterator[tuple[str, float]]:
        """One round: names and rates, F first."""
        one = lambda: len(self._plain.put(self._numbers.submissions(1)))  # noqa: E731
        yield "F", appends(self._folder, self._seconds)
        yield "put, 1 thread", rate(one, self._seconds)
        yield SINGLE_ALONE, rate(lambda: self._alone.put(1), self._seconds)
        yield "put, 8 threads", in_threads(8, one, self._seconds)
        yield "put of 100", rate(lambda: len(self._plain.put(self._numbers.submissions(100))), self._seconds)
        yield HUNDRED_ALONE, rate(lambda: self._alone.put(100), self._seconds)
        yield (
            "put over the socket, 1 client",
            rate(lambda: len(self._client.put(self._numbers.submissions(1))), self._seconds),
        )
        yield "settle of 100", self._settle()
        yield (
            "evict + insert, single",
            rate(lambda: len(self._full.put(self._numbers.submissions(1))), self._seconds),
        )
        yield (
            "evict + insert, 64",
            rate(lambda: len(self._full.put(self._numbers.submissions(64))), self._seconds),
        )
        yield "expiry sweep", self._expire()

    def _settle(self) -> float:
        outbox = self._settled
        for _ in range(40):
            outbox.put(self._numbers.submissions(250))
        hand_out(outbox)
        point = outbox.sync_point()
        begin = time.perf_counter()
        for first in range(point.lowest, point.next, 100):
            word = Receipt(epoch=point.epoch, high=0, accepted=((first, first + 99),), credit=1, server_ms=0)
            outbox.settle(point.epoch, word)
        return (point.next - point.lowest) / (time.perf_counter() - begin)

    def _expire(self) -> float:
        outbox = self._settled
        for _ in range(40):
            outbox.put(self._numbers.submissions(250, ttl_ns=0))
        before = outbox.sync_point().ledger.expired
        begin = time.perf_counter()
        outbox.upkeep_now()
        spent = time.perf_counter() - begin
        return (outbox.sync_point().ledger.expired - before) / spent


def bytes_on_disk(folder: Path) -> tuple[float, float]:
    """Bytes of the database for each byte of payload of 20,000 events: queue alone, and with its decisions."""
    sizes = []
    for receipt in (b"", RECEIPT):
        path = folder / f"size-{len(receipt)}"
        outbox = Outbox(path / "outbox", SETTINGS, SystemClock())
        numbers = Numbers()
        for _ in range(100):
            items = numbers.submissions(200)
            outbox.put(
                [Submission(i.key, i.kind, i.severity, i.ttl_ns, i.body, receipt=receipt) for i in items]
            )
        outbox.close()
        sizes.append((path / "outbox" / "outbox.db").stat().st_size / (20_000 * len(BODY)))
    return sizes[0], sizes[1]


def peer_rates(folder: Path, python: Path, seconds: float) -> Iterator[tuple[str, float]]:
    """Other durable queues, at one sync for each put."""
    script = Path(__file__).parent / "peers" / "queues.py"
    for name in ("persist-queue", "litequeue"):
        for threads in (1, 8):
            place = Path(tempfile.mkdtemp(dir=folder))
            command = [str(python), str(script), name, str(threads), str(seconds), str(place)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            yield f"{name}, {threads} thread{'s' if threads > 1 else ''}", float(done.stdout)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--peers", action="store_true", help="compare with other queues (installs them)")
    options = parser.parse_args()
    python = (
        python_of("bench-queues", ROOT / "tests" / "bench" / "requirements-queues.txt")
        if options.peers
        else None
    )
    place = Path(
        tempfile.mkdtemp(prefix="outbox-bench-", dir=ROOT / "out" if (ROOT / "out").is_dir() else None)
    )
    collect_rarely()  # as the process of the outbox
    ratios: dict[str, list[float]] = {}
    base: list[float] = []
    try:
        with contextlib.ExitStack() as stack:
            cases = Cases(place, options.seconds, stack)
            for _ in range(options.rounds):
                found = dict(cases.run())
                if python is not None:
                    found.update(peer_rates(place, python, options.seconds))
                base.append(found.pop("F"))
                for name, value in found.items():
                    ratios.setdefault(name, []).append(value / base[-1])
        alone, with_decisions = bytes_on_disk(place)
    finally:
        shutil.rmtree(place)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"F = append 316 B + fdatasync: {statistics.median(base):,.0f}/s; load average {load}")
    print(f"{'case':32}{'events/s':>10}  {'ratio to F':>16}  aim")
    for name, values in ratios.items():
        middle = statistics.median(values)
        aim = f">= {AIMS[name]:g}" if name in AIMS else ""
        spread = f"{min(values):.2f}-{max(values):.2f}"
        print(f"{name:32}{middle * statistics.median(base):>10,.0f}  {middle:>6.2f} ({spread})  {aim}")
    for name, beside in (("put, 1 thread", SINGLE_ALONE), ("put of 100", HUNDRED_ALONE)):
        of = statistics.median(ours / bare for ours, bare in zip(ratios[name], ratios[beside], strict=True))
        print(f"{name}: {of:.2f} of what sqlite3 alone does")
    print(f"bytes on disk for each byte of payload (282 B): {alone:.2f}, aim <= 1.6")
    print(f"  with the ring of 10,000 decisions of 250 B beside 20,000 events: {with_decisions:.2f}")


if __name__ == "__main__":
    main()
