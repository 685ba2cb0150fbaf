"""Every output on the page about rollouts is what the commands print: it is played from beginning to end."""

import contextlib
import io
import os
import re
import shlex
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from edge_runtime.protocol.release import Fit
from fleet_server.cli import rollout_watch
from fleet_server.cli.main import run
from fleet_server.http.limits import Limits, Rate
from tests.conftest import REPOSITORY
from tests.rigs.fleet_api import served
from tests.rigs.rollout_desk import RolloutDesk, rollout_desk
from tests.rigs.rollout_fleet import FACTS

PAGE = REPOSITORY / "docs" / "rollout-cli.md"
_STEP = re.compile(
    r"```(console|yaml)\n(.*?)```|<!-- (\d+) s pass -->|<!-- release (\d+) is damaged -->", re.DOTALL
)
_PROMPT = re.compile(r"(anna|ben|vera)\$ (.*)")
FIT = Fit(architectures=("aarch64",))
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?")


@dataclass
class Player:
    """Types what the page says, as the person whom it names.

    Attributes:
        options: of each person, put behind every command.
        code: of the last command.
    """

    desk: RolloutDesk
    folder: Path
    options: dict[str, list[str]]
    code: int = 0

    def type(self, person: str, command: str) -> str:
        """What a command prints, both streams as they come."""
        if command == "echo $?":
            return f"{self.code}\n"
        command, _, tail = command.partition(" | tail -")
        words = shlex.split(command)
        assert words[0] == "fleet", command
        shown = io.StringIO()
        with (
            _inside(self.folder),
            contextlib.redirect_stdout(shown),
            contextlib.redirect_stderr(shown),
            self._time("--watch" in words),
        ):
            self.code = run([*words[1:], *self.options[person]])
        lines = shown.getvalue().splitlines(keepends=True)
        return "".join(lines[-int(tail) :] if tail else lines)

    def damage(self, counter: str) -> None:
        """A release from which every other device goes back."""
        devices = self.desk.fleet.devices
        known = {device.running.sha256 for device in devices.values()} - {None}
        self.desk.fleet.publish(int(counter), rollback_to=tuple(sorted(str(sha) for sha in known)), fit=FIT)
        for device in list(devices.values())[::2]:
            device.fate = "reverted"

    @contextlib.contextmanager
    def _time(self, passes: bool) -> Iterator[None]:
        """While somebody watches, two minutes pass every few milliseconds."""
        if not passes:
            yield
            return
        ended = threading.Event()

        def pass_on() -> None:
            while not ended.wait(0.03):
                self.desk.fleet.round(120)

        thread = threading.Thread(target=pass_on, name="time")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """In a folder; `contextlib.chdir` came with Python 3.11."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@pytest.fixture
def player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Player]:
    for name in [name for name in os.environ if name.startswith("FLEET_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(rollout_watch, "POLL_S", 0.02)
    limit = Rate(1e9, 1_000_000)
    for desk in rollout_desk(
        tmp_path, f"sqlite:///{tmp_path / 'fleet.db'}", Limits(address=limit, token=limit)
    ):
        with served(desk.api) as url:
            yield Player(desk, tmp_path, options_of(desk, url, tmp_path))


def options_of(desk: RolloutDesk, url: str, folder: Path) -> dict[str, list[str]]:
    """Devices of the page, and what each person adds to a command."""
    desk.fleet.publish(7, fit=FIT)
    old = FACTS.model_copy(update={"architecture": "armv7l"})
    desk.fleet.enrol(*[f"dock-{number:02d}" for number in range(1, 37)], labels={"site": "berlin"})
    desk.fleet.enrol("old-1", "old-2", labels={"site": "berlin"}, facts=old)
    desk.fleet.enrol("spare-1", labels={"site": "berlin"}, seen=False)
    desk.fleet.enrol("north-1", labels={"site": "north"})
    found = {}
    for person, token in desk.tokens.items():
        file = folder / f"{person}.token"
        file.write_text(token)
        authority = str(desk.api.directory / "authority/ca.pem")
        found[person] = ["--server", url, "--token-file", str(file), "--ca", authority]
    return found


def play(player: Player, page: str) -> str:
    """The page with what the commands print now."""

    def played(step: "re.Match[str]") -> str:
        kind, body, seconds, counter = step.groups()
        if kind == "yaml":
            (player.folder / "plan.yaml").write_text(body)
        elif kind == "console":
            return "```console\n" + "".join(_typed(player, body)) + "```"
        elif seconds:
            player.desk.fleet.rounds(int(seconds) // 10, 10)
        else:
            player.damage(counter)
        return step[0]

    return _STEP.sub(played, page)


def _typed(player: Player, block: str) -> Iterator[str]:
    lines = block.splitlines()
    for number, line in enumerate(lines):
        prompt = _PROMPT.fullmatch(line)
        if prompt is None:
            continue
        yield f"{line}\n"
        printed = player.type(prompt[1], prompt[2])
        if lines[number + 1 : number + 2] == ["…"]:  # how often it looked is not the same twice
            yield "…\n"
            printed = printed.splitlines(keepends=True)[-1]
        yield printed


def normal(page: str) -> list[str]:
    """Lines in which any time is alike."""
    return [_TIME.sub("<time>", line) for line in page.splitlines()]


def test_the_page_shows_what_the_commands_print(player: Player) -> None:
    written = PAGE.read_text()
    assert normal(play(player, written)) == normal(written)
    assert written.count("```console") >= 10
