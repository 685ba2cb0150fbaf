"""The runtime on a real board, asked by its own commands over the board's shell."""

import json
import shlex
from collections.abc import Sequence
from typing import Any

from hil.bench.commands import done_here
from hil.bench.records import RuntimeCommands
from hil.device_parts import SeenEvent
from hil.event_file import events_in
from hil.faults import FaultBits, kernel_faults
from hil.parts import Answer, Shell
from hil.problems import DeviceError

_MOVES = 3
"""Exit code of `status` where a guard answers and nothing may move."""

_FACTS = "tr -d '\\0' </proc/device-tree/model 2>&-; echo; uname -rm; head -n 1 /etc/nv_tegra_release 2>&-"


class BenchRuntime:
    """Questions and orders for the runtime.

    Args:
        shell: of the device.
        commands: of the rig's file.
    """

    def __init__(self, shell: Shell, commands: RuntimeCommands) -> None:
        self.shell, self.commands = shell, commands

    def ask(self, *words: str, codes: Sequence[int] = (0,), within_s: float = 60.0) -> Any:
        """What a command of the runtime prints as JSON.

        Raises:
            DeviceError: it failed, or printed something else.
        """
        answer = self.run(*words, codes=codes, within_s=within_s)
        try:
            return json.loads(answer.out)
        except ValueError:
            raise DeviceError(f"{words[0]} printed no JSON: {answer.out[:80]!r}") from None

    def run(self, *words: str, codes: Sequence[int] = (0,), within_s: float = 60.0) -> Answer:
        """Run a command of the runtime on the device.

        Raises:
            DeviceError: it ended with another code.
        """
        return self.there((*self.commands.program, *words), codes=codes, within_s=within_s)

    def there(self, command: Sequence[str], *, codes: Sequence[int] = (0,), within_s: float = 60.0) -> Answer:
        """Run any command on the device.

        Raises:
            DeviceError: it ended with another code.
        """
        answer = self.shell.run(command, within_s)
        if answer.code not in codes:
            said = (answer.err or answer.out).strip()[-300:]
            raise DeviceError(f"{shlex.join(command)[:120]} ended with {answer.code}: {said}")
        return answer

    def root(self, *words: str) -> Answer:
        """Run a command that only root may run."""
        return self.there((*self.commands.privileged, *words))

    def status(self) -> dict[str, Any]:
        """`edge-runtime status --json`, whether a guard answers or not."""
        found: dict[str, Any] = self.ask(
            "status", "--json", "--state", self.commands.state, codes=(0, 1, _MOVES)
        )
        return found

    def workers(self) -> list[dict[str, Any]]:
        """Processes, as the guard tells them.

        Raises:
            DeviceError: no guard answers.
        """
        guard = self.status()["guard"]
        if guard is None:
            raise DeviceError("no guard answers")
        return list(guard["workers"])


class BenchEvents:
    """`Events` out of the file that the runtime appends them to."""

    def __init__(self, runtime: BenchRuntime) -> None:
        self._runtime = runtime

    def seen(self) -> list[SeenEvent]:
        """All of the file."""
        path = self._runtime.commands.events
        assert path is not None, "the rig's file was read"
        return events_in(self._runtime.there(("cat", path)).out)


class BenchDevice:
    """`Device` and `Heat` of a board.

    Args:
        runtime: on it.
    """

    def __init__(self, runtime: BenchRuntime) -> None:
        self._runtime = runtime
        self._events = BenchEvents(runtime) if runtime.commands.events else None
        self._warmed = 0

    def state(self) -> str | None:
        """Of its guard; None where none answers, or the board is not reached."""
        try:
            guard = self._runtime.status()["guard"]
        except DeviceError:
            return None
        return None if guard is None else str(guard["state"])

    def arm(self) -> None:
        """By the guard's command on the board."""
        self._runtime.run("guard", "arm", "--state", self._runtime.commands.state)

    def frames(self) -> int | None:
        """Of all cameras."""
        try:
            cameras = self._runtime.status()["cameras"]
        except DeviceError:
            return None
        return None if cameras is None else sum(int(camera["evaluated"]) for camera in cameras)

    def faults(self) -> FaultBits:
        """Latch, throttling, over-current, memory errors, and the kernel's log where the file says how."""
        runtime = self._runtime
        guard = runtime.status()["guard"]
        latch = None if guard is None or guard["latch"] is None else str(guard["latch"]["id"])
        throttled, over_current, unread = bits_of(runtime.ask("health", "--json"))
        lines: list[str] = []
        if runtime.commands.kernel_log:
            lines = runtime.there(runtime.commands.kernel_log).out.splitlines()
        counts = runtime.there(("sh", "-c", "cat /sys/devices/system/edac/mc/mc*/ue_count 2>/dev/null; true"))
        errors = sum(int(word) for word in counts.out.split() if word.isdecimal())
        return FaultBits(latch, throttled, over_current, errors, kernel_faults(lines), unread)

    def acknowledge(self) -> None:
        """By the command of the rig's file, on this machine, where the key is.

        Raises:
            DeviceError: the file names none, or nothing is latched.
        """
        command = self._runtime.commands.acknowledge
        guard = self._runtime.status()["guard"]
        if command is None or guard is None or guard["latch"] is None:
            raise DeviceError("nothing is latched, or the rig's file names no command that acknowledges")
        done_here((*command, str(guard["latch"]["id"])), 60.0)

    def facts(self) -> dict[str, str]:
        """Model, kernel, release and version."""
        lines = [line.strip() for line in self._runtime.there(("sh", "-c", _FACTS)).out.splitlines()]
        lines += [""] * 3
        version = self._runtime.run("--version").out.strip()
        return {"board": lines[0] or "unknown", "kernel": lines[1], "l4t": lines[2], "runtime": version}

    def celsius(self) -> float | None:
        """Of the hottest sensor."""
        found = self._runtime.ask("health", "--json")["hottest"]["celsius"]
        return None if found is None else float(found)

    def warm(self) -> None:
        """It works as it is configured; air is the bench's matter. Late events count from now on."""
        self._warmed = len(self._events.seen()) if self._events is not None else 0

    def late_share(self) -> float | None:
        """Of the events since `warm`."""
        events = [] if self._events is None else self._events.seen()[self._warmed :]
        return sum(one.late for one in events) / len(events) if events else None


def bits_of(health: dict[str, Any]) -> tuple[int, int, tuple[str, ...]]:
    """Throttling and over-current out of `edge-runtime health --json`, and what it could not read."""
    throttling, jetson, unread = health["throttling"], health["jetson"], []
    counts = [count for count in throttling["counts"].values() if count is not None]
    if throttling["active"] is None:
        unread.append("whether the hardware throttles")
    events = [] if jetson is None else [one["events"] for one in jetson["over_current"].values()]
    if jetson is not None and not [one for one in events if one is not None]:
        unread.append("over-current events")
    over = sum(one for one in events if one is not None)
    return sum(counts) + (throttling["active"] is True), over, tuple(unread)
