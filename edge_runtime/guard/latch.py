"""The latch on disk: it survives kill -9, a power cut and a reboot, between any two steps.

One small file is replaced as a whole and flushed before its name changes. It also says whether motion was permitted
when it was written: it is written so before the first lease, so a guard that ends in any other way than by being
asked to leaves a file that cannot vouch for the state of the body, and neither does a damaged one.
"""

import json
import os
import zlib
from typing import Any, NamedTuple

from edge_runtime.durable import write_file
from edge_runtime.guard.conditions import Condition, conditions_in
from edge_runtime.guard.memory import LATCHED, Latch, Record, State

FORMAT = 1
MAX_BYTES = 16 * 1024
MAX_LATCHES = 256
"""Times of latches that are remembered at most; a profile locks out after far fewer."""

_LARGEST = (1 << 63) - 1


class Found(NamedTuple):
    """What lay on disk.

    Attributes:
        record: what was latched, for `machine.start`; None where nobody can say.
        why: one sentence where it is None, else empty.
        missing: whether there was no file at all: the first start of this body, or a new disk.
    """

    record: Record | None
    why: str = ""
    missing: bool = False


class LatchFile:
    """The file, and what was last written to it.

    Args:
        path: of the file; its folder exists.

    Attributes:
        trouble: why the last write failed, a sentence; None where it did not.
    """

    def __init__(self, path: "str | os.PathLike[str]") -> None:
        self._path = os.fspath(path)
        self._written: tuple[Record, bool] | None = None
        self.trouble: str | None = None

    def find(self) -> Found:
        """Read it, at the start of a guard."""
        try:
            with open(self._path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return Found(
                None, "there is no record of what was latched: acknowledge once that it is safe", missing=True
            )
        except OSError as error:
            return Found(None, f"the record of what was latched cannot be read: {error.strerror}")
        try:
            record, permitting = _parsed(data)
        except (ValueError, KeyError, TypeError, RecursionError):
            return Found(None, "the record of what was latched is damaged")
        if permitting:
            return Found(None, "the last guard ended while motion was permitted")
        return Found(record)

    def save(self, record: Record, *, permitting: bool) -> bool:
        """Write it down and wait until the disk has it; nothing is done where it says so already.

        Args:
            record: what is latched.
            permitting: whether a lease may be given after this.

        Returns:
            Whether it is on disk. Where it is not, nothing may be permitted; what was there before stays.
        """
        if self._written == (record, permitting):
            return True
        try:
            write_file(self._path, _encoded(record, permitting=permitting), 0o600)
        except OSError as error:
            self.trouble = f"what is latched cannot be written down: {error.strerror}"
            return False
        self._written, self.trouble = (record, permitting), None
        return True


def _encoded(record: Record, *, permitting: bool) -> bytes:
    latch = record.latch
    content = {
        "format": FORMAT,
        "permitting": permitting,
        "boot_id": record.boot_id,
        "latches_ns": list(record.latches_ns)[-MAX_LATCHES:],
        "latch": None
        if latch is None
        else {
            "id": latch.id,
            "state": latch.state.value,
            "causes": [condition.value for condition in conditions_in(latch.causes)],
            "since_ns": latch.since_ns,
        },
    }
    return json.dumps({"content": content, "crc": _crc(content)}, indent=1).encode("ascii")


def _parsed(data: bytes) -> tuple[Record, bool]:
    """What the file says.

    Raises:
        ValueError, KeyError, TypeError: it is not a file that was written here.
    """
    if len(data) > MAX_BYTES:
        raise ValueError
    whole = json.loads(data)
    content = whole["content"]
    if whole["crc"] != _crc(content) or content["format"] != FORMAT:
        raise ValueError
    if type(content["permitting"]) is not bool or type(content["boot_id"]) is not str:
        raise TypeError
    latch = None if content["latch"] is None else _latch(content["latch"])
    times = tuple(_time(value) for value in content["latches_ns"][:MAX_LATCHES])
    return Record(latch, times, content["boot_id"]), content["permitting"]


def _latch(found: dict[str, Any]) -> Latch:
    state, identity = State(found["state"]), found["id"]
    if state not in LATCHED or type(identity) is not str or not 0 < len(identity) <= 64:
        raise ValueError
    causes = 0
    for name in found["causes"]:
        causes |= Condition(name).mask
    return Latch(identity, state, causes, _time(found["since_ns"]))


def _time(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise ValueError
    return value


def _crc(content: object) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())
