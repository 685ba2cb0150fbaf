"""What the plan asks of a board beyond its state, by the runtime's own commands and those of the rig's file."""

from collections.abc import Callable

from hil.bench.commands import done_here, lacking_program
from hil.bench.records import UpdateCommand
from hil.bench.runtime import BenchRuntime
from hil.device_parts import Fates, MemoryUse, Standing
from hil.problems import DeviceError

_LONG_S = 3600.0

_USE = """
total=0; open=0
for pid in "$@"; do
    pss=$(awk '/^Pss:/ {print $2}' /proc/$pid/smaps_rollup 2>/dev/null) || continue
    total=$((total + ${pss:-0})); open=$((open + $(ls /proc/$pid/fd 2>/dev/null | wc -l)))
done
swap=$(awk '/^SwapTotal:/ {t=$2} /^SwapFree:/ {f=$2} END {print t-f}' /proc/meminfo)
echo "$total $open $swap"
"""


class BenchInjector:
    """`Injector` by `edge-runtime fault`.

    Args:
        runtime: on the board.
        now: of the rig's clock.
    """

    def __init__(self, runtime: BenchRuntime, now: Callable[[], float]) -> None:
        self._runtime, self._now = runtime, now

    def order(self, unit: str, kind: str, seconds: float) -> float:
        """Order it; the way there counts as reaction."""
        config = self._runtime.commands.config
        assert config is not None, "the rig's file was read"
        began = float(self._now())
        self._runtime.run("fault", "inject", config, unit, kind, "--for", f"{seconds:g}", "--by", "hil")
        return began


class BenchProcesses:
    """`Processes` by signals over the shell."""

    def __init__(self, runtime: BenchRuntime) -> None:
        self._runtime = runtime

    def kill(self, name: str) -> None:
        """SIGKILL; the guard's through its service."""
        if name == "guard":
            service = self._runtime.commands.service
            self._runtime.root("systemctl", "kill", "--kill-whom=main", "--signal=KILL", service)
            return
        pid = next((row["pid"] for row in self._runtime.workers() if row["name"] == name), None)
        if pid is None:
            raise DeviceError(f"{name} does not run")
        self._runtime.root("kill", "-KILL", str(pid))

    def restarts(self) -> int:
        """Of all workers."""
        return sum(max(0, row["starts"] - 1) for row in self._runtime.workers())


class BenchQueue:
    """`Queue`: the outbox by its command, the load and the server by those of the rig's file."""

    def __init__(self, runtime: BenchRuntime) -> None:
        self._runtime = runtime

    def load(self, number: int) -> int:
        """Hand over."""
        command = self._runtime.commands.load
        assert command is not None, "the rig's file was read"
        return _number(self._runtime.there((*command, str(number))).out)

    def fates(self) -> Fates:
        """How it stands."""
        found = self._runtime.ask("outbox", "status", "--json", "--state", self._runtime.commands.state)
        given_up = found["expired"] + found["evicted"] + found["rejected"] + found["lost"]
        return Fates(
            found["accepted"], found["queued"], found["delivered"], given_up, balances=found["balances"]
        )

    def at_server(self) -> tuple[int, int]:
        """By a command of this machine: two numbers."""
        command = self._runtime.commands.at_server
        assert command is not None, "the rig's file was read"
        words = done_here(command, 120.0).split()
        if len(words) != 2 or not all(word.isdecimal() for word in words):
            raise DeviceError(f"{command[0]} has to print two numbers, and printed {' '.join(words)[:80]!r}")
        return int(words[0]), int(words[1])


class BenchMotion:
    """`MotionGate` by the command of the rig's file."""

    def __init__(self, runtime: BenchRuntime) -> None:
        self._runtime = runtime

    def passed(self) -> int:
        """So far."""
        command = self._runtime.commands.passed
        assert command is not None, "the rig's file was read"
        return _number(self._runtime.there(command).out)


class BenchModels:
    """`Models` and `Pictures` by `edge-runtime model check` and `eval`."""

    def __init__(self, runtime: BenchRuntime) -> None:
        self._runtime = runtime

    def golden(self) -> tuple[bool, str]:
        """Whether it is fit there."""
        package = self._runtime.commands.package
        assert package is not None, "the rig's file was read"
        found = self._runtime.ask("model", "check", package, "--json", codes=(0, 1), within_s=_LONG_S)
        texts = [f"{one['code']}: {one['text']}" for one in found["problems"]]
        return bool(found["fit"]), "; ".join(texts)

    def accuracy(self) -> float:
        """The mAP on the pictures of the rig's file."""
        given = self._runtime.commands
        assert given.package is not None, "the rig's file was read"
        assert given.images is not None, "as above"
        assert given.annotations is not None, "as above"
        places = ("--images", given.images, "--annotations", given.annotations)
        found = self._runtime.ask("eval", given.package, *places, "--json", codes=(0, 1), within_s=_LONG_S)
        return float(found["map"])


class BenchMemory:
    """`Memory` of all processes of the guard's table."""

    def __init__(self, runtime: BenchRuntime) -> None:
        self._runtime = runtime

    def use(self) -> MemoryUse:
        """Now."""
        pids = [str(row["pid"]) for row in self._runtime.workers() if row["pid"]]
        words = self._runtime.root("sh", "-c", _USE, "sh", *pids).out.split()
        if len(words) != 3 or words[0] == "0":
            raise DeviceError("the runtime's memory cannot be read")
        resident, descriptors, swap = (int(float(word)) for word in words)
        return MemoryUse(resident * 1024, descriptors, swap * 1024)


def _number(text: str) -> int:
    word = text.strip()
    if not word.isdecimal():
        raise DeviceError(f"a number was to be printed, and not {word[:80]!r}")
    return int(word)


class BenchUpdates:
    """`Updates`: the fleet's part by the command of the rig's file, the board's by `edge-runtime update status`.

    Args:
        runtime: on the board.
        command: of the rig's file.
    """

    def __init__(self, runtime: BenchRuntime, command: UpdateCommand) -> None:
        self._runtime, self._command = runtime, command

    def begin(self) -> str:
        """Have the fleet assign another release."""
        words = done_here(self._command.begin, self._command.within).split()
        if not words:
            raise DeviceError(f"{self._command.begin[0]} has to print the release's digest last")
        return words[-1]

    def standing(self) -> Standing:
        """By the board itself; what perception runs counts, not what is written down."""
        state = self._runtime.commands.state
        found = self._runtime.ask("update", "status", "--json", "--state", state, codes=(0, 1, 3, 4))
        if not found["running"]:
            raise DeviceError("no process of updates answers")
        slot = found["slots"].get(self._command.slot)
        if slot is None:
            raise DeviceError(f"the board has no slot {self._command.slot}")
        in_use = slot["in_use"]
        whole = found["journal_lost"] is None and found["trouble"] in (None, "") and in_use is not None
        runs = "" if in_use is None or in_use["release"] is None else str(in_use["release"])
        return Standing(runs, bool(found["works"]), whole)

    def lacks(self) -> list[str]:
        """The program, where it is not here."""
        return lacking_program(self._command.begin[0])

    @property
    def told(self) -> str:
        """What it runs."""
        return " ".join(self._command.begin)
