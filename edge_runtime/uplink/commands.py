"""Commands of the server: which may be carried out, each at most once, and what became of it.

A command is never retained, names this device, has not run out, and its id is new. Ids are written down before the
work begins: a device that is killed in the middle does not do it twice, and says so.
"""

import json
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.clock import NS_PER_MS, Clock
from edge_runtime.durable import write_file
from edge_runtime.protocol.operation import Command
from edge_runtime.protocol.wire import WireError
from edge_runtime.uplink.ports import CommandAnswer

REMEMBERED = 256
"""Ids of commands that are kept, newest last; a command's life is far shorter than that of so many."""

_MAX_FILE = 512 * 1024
_INTERRUPTED = CommandAnswer(
    done=False, text="interrupted by a restart; look at the device before asking again"
)
_LATE_ALLOWANCE_MS = 2_000
_MAX_LIFE_MS = 7 * 86_400_000


@dataclass(frozen=True, slots=True)
class Refused:
    """A message that is not carried out.

    Attributes:
        why: one of a few words, for counting.
        command: where it was one of ours, so that its sender can be told.
    """

    why: str
    command: Command | None = None


class ServerTime:
    """The server's clock, as its receipts tell it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_ms: int | None = None

    def heard(self, server_ms: int) -> None:
        """A receipt said what time it is."""
        self._offset_ms = server_ms - self._clock.boottime_ns() // NS_PER_MS

    def now_ms(self) -> int | None:
        """Milliseconds since 1970: by the newest receipt, else by our clock where it is synchronised, else None.

        It was the server that dated the command. A clock of ours that runs years ahead would refuse all of them.
        """
        if self._offset_ms is not None:
            return self._offset_ms + self._clock.boottime_ns() // NS_PER_MS
        wall = self._clock.wall()
        return wall.unix_ns // NS_PER_MS if wall.synced else None


def examine(payload: bytes, device: str, now_ms: int | None, *, retained: bool) -> Command | Refused:
    """Whether a message on the command topic is a command for this device, now.

    Args:
        payload: as it arrived.
        device: this one's id.
        retained: whether the broker kept it.
        now_ms: wall time, or None where nobody knows it; then only the length of the command's life is checked,
            because it is carried out as it arrives.
    """
    if retained:
        return Refused("retained")
    try:
        command = Command.decode(payload)
    except WireError as error:
        return Refused(error.fault.value)
    life_ms = command.expires_ms - command.issued_ms
    if command.device != device:
        return Refused("other_device")
    if not 0 < life_ms <= _MAX_LIFE_MS:
        return Refused("bad_expiry", command)
    if now_ms is not None and now_ms > command.expires_ms + _LATE_ALLOWANCE_MS:
        return Refused("expired", command)
    return command


class SeenCommands:
    """Ids of commands and their answers, kept across restarts.

    Args:
        file: where; its directory exists.

    Attributes:
        trouble: a sentence where the file could not be written, else None.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.trouble: str | None = None
        self._answers: OrderedDict[str, CommandAnswer] = OrderedDict(self._read())

    def begin(self, command_id: str) -> CommandAnswer | None:
        """The answer that this id has already, or None: then it is noted, and may be carried out."""
        known = self._answers.get(command_id)
        if known is None:
            self._keep(command_id, _INTERRUPTED)
        return known

    def finish(self, command_id: str, answer: CommandAnswer) -> None:
        """The command was carried out, or refused."""
        self._keep(command_id, answer)

    def _keep(self, command_id: str, answer: CommandAnswer) -> None:
        self._answers[command_id] = answer
        self._answers.move_to_end(command_id)
        while len(self._answers) > REMEMBERED:
            self._answers.popitem(last=False)
        rows = [[key, known.done, known.text] for key, known in self._answers.items()]
        try:
            write_file(self._file, json.dumps(rows, ensure_ascii=False).encode(), 0o600)
        except OSError as error:
            self.trouble = (
                f"ids of commands cannot be written down ({error.strerror}); a restart forgets them"
            )
        else:
            self.trouble = None

    def _read(self) -> list[tuple[str, CommandAnswer]]:
        try:
            with self._file.open("rb") as file:
                found = json.loads(file.read(_MAX_FILE))
            return [(str(key), CommandAnswer(bool(done), str(text)[:200])) for key, done, text in found][
                -REMEMBERED:
            ]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError):
            self.trouble = "the file of command ids is damaged; commands before it are not remembered"
            return []
