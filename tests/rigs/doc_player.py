"""Types what a page says: its blocks of shell, one after the other, in a folder that looks like a checkout.

The folder has links to what a reader of a checkout has: `models`, `deploy`, `sim`, the fetched clips, the
environment. What the commands write stays in it. Everything is a real process, and none outlives the player.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from sim.ports import free_port
from tests.conftest import REPOSITORY
from tests.rigs.doc_pages import Block, Page

PATIENCE_S = 900.0
"""For one block; a busy machine is slow, and a block that hangs has to fail some day."""

_END_S = 60.0
_LOOK_S, _AGAIN_S = 0.05, 0.5
_MAIN = "main"
_LINKED = ("models", "deploy", "sim", ".cache")
_OWN = ("FLEET_", "EDGE_RUNTIME_", "DEMO_", "MAKE", "VIRTUAL_ENV", "COVERAGE_")


class Failed(AssertionError):
    """A block did not do what the page says; the text has the place and what was printed."""


class Terminal:
    """One shell that types blocks one after the other and stops at the first command that fails."""

    def __init__(self, scratch: Path, folder: Path, environment: dict[str, str], variables: Path) -> None:
        self._scratch = scratch
        self._told, write = os.pipe()
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=environment,
            pass_fds=(write,),
            start_new_session=True,
            text=True,
        )
        self._done = f"echo done >&{write}"
        self._type(f'. "{variables}"; set -euo pipefail')
        os.close(write)
        os.set_blocking(self._told, False)
        self._typed = 0
        self.output = scratch / "nothing"

    def begin(self, script: str) -> None:
        """Type a script and wait for nothing."""
        self._typed += 1
        source = self._scratch / f"{self._typed}.sh"
        self.output = self._scratch / f"{self._typed}.out"
        source.write_text(script, encoding="utf-8")
        self.output.touch()
        self._type(f'. "{source}" </dev/null >"{self.output}" 2>&1; {self._done}')

    def run(self, script: str) -> tuple[bool, str]:
        """Type a script and wait for its end; whether all of it succeeded, and what it printed."""
        self.begin(script)
        end = time.monotonic() + PATIENCE_S
        while (over := self._over()) is None and time.monotonic() < end:
            time.sleep(_LOOK_S)
        return bool(over), self.printed

    def until(self, text: str) -> bool:
        """Wait until what was begun prints a text; False where it ends or never does."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if text in self.printed:
                return True
            if self._over() is not None:
                return text in self.printed
            time.sleep(_LOOK_S)
        return False

    @property
    def printed(self) -> str:
        """By the newest script, both streams as they come."""
        return self.output.read_text(encoding="utf-8", errors="replace") if self.output.exists() else ""

    def end(self) -> None:
        """End the shell and all that it started: first as Ctrl-C does, then without asking."""
        assert self._shell.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._shell.stdin.close()  # a shell whose command took the Ctrl-C waits for the next line
        for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._shell.pid, sign)
            end = time.monotonic() + _END_S
            while self._alive() and time.monotonic() < end:
                time.sleep(_LOOK_S)
            if not self._alive():
                break
        self._shell.wait(timeout=_END_S)
        os.close(self._told)

    def _type(self, line: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{line}\n")
        self._shell.stdin.flush()

    def _over(self) -> bool | None:
        """True once the script is done, False once the shell has ended before that, None meanwhile."""
        try:
            told = os.read(self._told, 64)
        except BlockingIOError:
            return None if self._shell.poll() is None else False
        return bool(told)

    def _alive(self) -> bool:
        """Whether anything of its group is left; the shell itself waits for a line and does not end by Ctrl-C."""
        try:
            os.killpg(self._shell.pid, 0)
        except ProcessLookupError:
            return False
        return any(True for _ in _others(self._shell.pid)) or self._shell.poll() is None


def _others(group: int) -> Iterator[int]:
    """Live processes of a group but its leader."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group and int(stat.parent.name) != group and fields[0] != "Z":
                yield int(stat.parent.name)


class Player:
    """Plays pages one after the other; a context manager whose end leaves no process.

    Args:
        folder: made anew; the checkout of a reader.
        data: the folder of real data, for what readers bring.
    """

    def __init__(self, folder: Path, data: Path) -> None:
        self._data = data
        self._checkout = folder / "checkout"
        self._scratch = folder / "typed"
        self._ports: dict[str, str] = {}
        self._terminals: dict[str, Terminal] = {}
        self._printed, self._opened = "", 0
        for made in (self._checkout, self._scratch, folder / "home"):
            made.mkdir(parents=True)
        for name in _LINKED:
            (self._checkout / name).symlink_to(REPOSITORY / name)
        (self._checkout / ".venv").symlink_to(sys.prefix)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
        self._environment = kept | {
            "HOME": str(folder / "home"),
            "PATH": f"{self._checkout / '.venv' / 'bin'}:{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "120",
        }

    def __enter__(self) -> "Player":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for terminal in reversed(self._terminals.values()):
            terminal.end()

    def play(self, page: Page) -> None:
        """All blocks of a page.

        Raises:
            Failed: one does not do what the page says.
        """
        for name, place in page.brings.items():
            if not (self._checkout / name).exists():
                (self._checkout / name).symlink_to(self._data / place)
        for port in page.ports:
            self._ports.setdefault(port, str(free_port()))
        for block in page.blocks:
            if not block.why_not:
                self._block(block)

    def _block(self, block: Block) -> None:
        if block.title:
            self._run(block, f"cat >'{block.title}' <<'END OF FILE'\n{block.body}END OF FILE\n")
        elif block.is_printed:
            self._compare(block)
        elif block.language != "sh":
            return
        elif block.terminal is not None:
            self._begin(block, *block.terminal)
        elif block.until:
            self._repeat(block)
        else:
            self._run(block, block.body)

    def _begin(self, block: Block, name: str, ready: str) -> None:
        """Type it into a terminal of its own; what runs there is ended first, as a person does with Ctrl-C."""
        if name in self._terminals:
            self._terminals.pop(name).end()
        terminal = self._terminal(name)
        terminal.begin(self._real(block.body))
        if ready and not terminal.until(self._real(ready)):
            raise self._failed(block, f"never said {ready!r}")
        self._printed = terminal.printed

    def _repeat(self, block: Block) -> None:
        """Type it until it prints what the page waits for; until then it may say no."""
        end = time.monotonic() + PATIENCE_S
        while block.until not in self._run(block, f"( {block.body} ) || true"):
            if time.monotonic() > end:
                raise self._failed(block, f"never printed {block.until!r}")
            time.sleep(_AGAIN_S)

    def _run(self, block: Block, script: str) -> str:
        well, self._printed = self._terminal(_MAIN).run(self._real(script))
        if not well:
            raise self._failed(block, "failed")
        return self._printed

    def _failed(self, block: Block, what: str) -> Failed:
        said = "".join(
            f"\n-- terminal {name}:\n{one.printed[-4000:]}" for name, one in self._terminals.items()
        )
        return Failed(f"{block.place} {what}:\n{block.body}{said}")

    def _terminal(self, name: str) -> Terminal:
        """The one of this name; a new one opens where the first one is, with its variables."""
        if name not in self._terminals:
            self._opened += 1
            scratch = self._scratch / f"{self._opened}-{name}"
            scratch.mkdir()
            folder, variables = self._checkout, scratch / "variables"
            variables.touch()
            if (
                _MAIN in self._terminals
            ):  # into files: what a failure shows must hold nothing of the environment
                self._terminals[_MAIN].run(f'export -p >"{variables}"; pwd >"{scratch / "folder"}"')
                folder = Path((scratch / "folder").read_text(encoding="utf-8").rstrip("\n"))
            self._terminals[name] = Terminal(scratch, folder, self._environment, variables)
        return self._terminals[name]

    def _real(self, text: str) -> str:
        """With ports that are free on this machine."""
        for port, free in self._ports.items():
            text = re.sub(rf"\b{port}\b", free, text)
        return text

    def _compare(self, block: Block) -> None:
        """Each line that the page shows was printed, in this order; … is anything."""
        printed = [" ".join(line.split()) for line in self._printed.splitlines()]
        place = 0
        for line in filter(str.strip, block.body.splitlines()):
            wanted = " ".join(self._real(line).split())
            if wanted == "…":
                continue
            pattern = re.compile(".*".join(re.escape(part) for part in wanted.split("…")))
            found = next((at for at in range(place, len(printed)) if pattern.fullmatch(printed[at])), None)
            if found is None:
                raise self._failed(block, f"not printed: {wanted!r}")
            place = found + 1
