"""What tests of the outbox and of those who use it share: submissions, a clock with boots, the process, and a disk
that remembers every write.
"""

import json
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import pytest

from edge_runtime.clock import NS_PER_MS, NS_PER_S, SystemClock, WallLabel
from edge_runtime.outbox import EvidenceFile, Outbox, OutboxClient, OutboxSettings, Submission, storefile
from edge_runtime.outbox.database import DatabaseFault, Row
from edge_runtime.protocol.delivery import Receipt
from edge_runtime.protocol.vocabulary import DecisionKind
from edge_runtime.state import StateDirectory

WALL_NS = 1_790_000_000 * NS_PER_S
BODY = b"an event of the usual length " * 10


@dataclass
class BootClock:
    """All clocks, moved by hand; `reboot` begins a new boot."""

    boot_ns: int = 1_000 * NS_PER_S
    unix_ns: int = WALL_NS
    synced: bool = True
    boot: int = 1

    def monotonic_ns(self) -> int:
        return self.boot_ns

    def boottime_ns(self) -> int:
        return self.boot_ns

    def wall(self) -> WallLabel:
        return WallLabel(self.unix_ns, self.synced, f"boot-{self.boot}")

    def pass_s(self, seconds: float) -> None:
        self.boot_ns += round(seconds * NS_PER_S)
        self.unix_ns += round(seconds * NS_PER_S)

    def reboot(self, off_s: float, *, up_s: float = 10.0) -> None:
        """The power was off for a while; the wall clock kept time through a battery."""
        self.boot += 1
        self.boot_ns = round(up_s * NS_PER_S)
        self.unix_ns += round((off_s + up_s) * NS_PER_S)


def key_of(number: int) -> bytes:
    """A key with the form of a UUIDv7 that sorts by its number."""
    return number.to_bytes(6, "big") + b"\x70\x00\x80" + bytes(7)


def submission(
    number: int,
    severity: int = 1,
    *,
    kind: DecisionKind = DecisionKind.SEND,
    ttl_s: float = 3600,
    body: bytes = BODY,
    receipt: bytes = b"",
    evidence: EvidenceFile | None = None,
) -> Submission:
    """The event with this number."""
    return Submission(
        key_of(number), kind, severity, round(ttl_s * NS_PER_S), body, receipt=receipt, evidence=evidence
    )


def receipt(
    epoch: str,
    *,
    high: int = 0,
    accepted: Iterable[tuple[int, int]] = (),
    wall_ns: int = WALL_NS,
    **more: Any,
) -> Receipt:
    """The server's word."""
    return Receipt(
        epoch=epoch, high=high, accepted=tuple(accepted), credit=4, server_ms=wall_ns // NS_PER_MS, **more
    )


def hand_out(outbox: Outbox) -> None:
    """Everything was on its way once, as it must have been before a server can say that it has it."""
    while outbox.lease(1024, 4 * 1024 * 1024):
        pass
    outbox.unlease()


def quiet_settings(**limits: Any) -> OutboxSettings:
    """Settings whose upkeep runs only when a test asks for it (the fake clock must pass a minute)."""
    return OutboxSettings(**{"expiry_period_s": 60, "ballast_bytes": 0, **limits})


@contextmanager
def opened(path: Path, clock: Any, settings: OutboxSettings | None = None, **more: Any) -> Iterator[Outbox]:
    """An outbox that is closed at the end."""
    outbox = Outbox(path, settings or quiet_settings(), clock, **more)
    try:
        yield outbox
    finally:
        outbox.close()


@contextmanager
def process(state: StateDirectory, **settings: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """The real process, ready; killed at the end if it still runs."""
    command = [sys.executable, "-m", "edge_runtime.outbox", "--state", str(state.path)]
    command += ["--settings", json.dumps(settings)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert child.stdout is not None
        line = child.stdout.readline()
        if line != b"ready\n":
            child.wait(10)
            assert child.stderr is not None
            raise AssertionError(f"not ready: {line!r} {child.stderr.read()!r}")
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.wait(10)
        for stream in (child.stdout, child.stderr):
            if stream is not None:
                stream.close()


def client(state: StateDirectory, timeout_s: float = 10.0) -> OutboxClient:
    """A connection to the process."""
    return OutboxClient(state.outbox_socket, SystemClock(), timeout_s)


# ---- a disk that remembers


@dataclass(frozen=True)
class Operation:
    """One thing that SQLite did to a file."""

    kind: str  # write, sync, truncate, delete, sync_directory
    name: str = ""
    offset: int = 0
    data: bytes = b""


@dataclass
class RecordingDisk:
    """A file system of SQLite that keeps every write and every sync in the order they were made."""

    operations: list[Operation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name = f"recorder-{id(self)}"
        self._vfs = _RecordingVfs(self)

    def connect(self, path: Path | None) -> "ApswDatabase":
        """A connection on this disk."""
        return ApswDatabase(path, None if path is None else self.name)

    def remember_directory_syncs(self, patch: pytest.MonkeyPatch) -> None:
        """See the outbox's own syncs of its directory, which do not pass through SQLite."""

        def sync(directory: Path) -> None:
            storefile_sync(directory)
            self.operations.append(Operation("sync_directory"))

        storefile_sync = storefile.sync_directory
        patch.setattr(storefile, "sync_directory", sync)

    def image(self, cut: int, rng: random.Random, target: Path) -> None:
        """Write what a power cut after `cut` operations could leave.

        What was synced is there. Of the rest, each write is there, missing, or torn at sectors of 512 bytes, on its
        own: disks and their caches reorder. A removal is certain once the directory was synced.
        """
        files: dict[str, bytearray] = {}
        last_sync: dict[str, int] = {}
        for index, operation in enumerate(self.operations[:cut]):
            if operation.kind.startswith("sync"):
                last_sync[operation.name] = index
        for index, operation in enumerate(self.operations[:cut]):
            place = "" if operation.kind == "delete" else operation.name
            safe = index < last_sync.get(place, -1)
            _apply(files, operation, rng, safe=safe)
        target.mkdir(parents=True)
        for name, content in files.items():
            (target / name).write_bytes(content)


def _apply(files: dict[str, bytearray], operation: Operation, rng: random.Random, *, safe: bool) -> None:
    if operation.kind.startswith("sync"):
        return
    fate = 0.0 if safe else rng.random()
    if fate > 0.6:
        return
    if operation.kind == "delete":
        files.pop(operation.name, None)
        return
    content = files.setdefault(operation.name, bytearray())
    if operation.kind == "truncate":
        del content[operation.offset :]
        return
    pieces = [(operation.offset, operation.data)]
    if fate > 0.3:  # torn
        sectors = [
            (operation.offset + at, operation.data[at : at + 512])
            for at in range(0, len(operation.data), 512)
        ]
        pieces = [sector for sector in sectors if rng.random() < 0.5]
    for offset, data in pieces:
        if len(content) < offset + len(data):
            content.extend(bytes(offset + len(data) - len(content)))
        content[offset : offset + len(data)] = data


class _RecordingVfs(apsw.VFS):
    def __init__(self, disk: RecordingDisk) -> None:
        self._disk = disk
        super().__init__(disk.name, base="")

    def xOpen(self, name: Any, flags: Any) -> "_RecordingFile":
        return _RecordingFile(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self._disk.operations.append(Operation("delete", Path(filename).name))


class _RecordingFile(apsw.VFSFile):
    def __init__(self, disk: RecordingDisk, name: Any, flags: Any) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self._disk, self._name = disk, Path(path).name
        super().__init__("", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:
        super().xWrite(data, offset)
        self._disk.operations.append(Operation("write", self._name, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._disk.operations.append(Operation("truncate", self._name, newsize))

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._disk.operations.append(Operation("sync", self._name))


class ApswDatabase:
    """A connection of apsw: the second implementation of the outbox's seam to SQLite."""

    def __init__(self, path: Path | None, vfs: str | None) -> None:
        try:
            self._connection = apsw.Connection(":memory:" if path is None else str(path), vfs=vfs)
        except apsw.Error as error:
            raise DatabaseFault(str(error)) from error

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        try:
            return list(self._connection.execute(sql, tuple(parameters)))
        except apsw.Error as error:
            raise DatabaseFault(str(error)) from error

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        try:
            self._connection.executemany(sql, [tuple(row) for row in rows])
        except apsw.Error as error:
            raise DatabaseFault(str(error)) from error

    def changed(self) -> int:
        return int(self._connection.changes())

    def close(self) -> None:
        self._connection.close()
