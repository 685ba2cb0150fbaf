"""`guard ack`, `arm`, `disarm`, `reset` and `key`, spoken to a real guard; records signed elsewhere."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.cli.guard_orders import asked_status
from edge_runtime.guard.client import NoGuard
from edge_runtime.guard.conditions import Condition
from edge_runtime.state import StateDirectory
from tests.rigs.guard_bodies import PATIENT, altered
from tests.rigs.guarded import GuardProcess
from tests.rigs.guarded_state import guarded_state
from tests.rigs.terminal import Terminal

Cli = Callable[..., Any]


@pytest.fixture
def key(cli: Cli, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A private key of Ann, and what the configuration says of it."""
    file = tmp_path / "ann.pem"
    made = cli("guard", "key", "new", file)
    assert made.code == 0
    name, _, public = made.out.strip().partition(": ")
    return file, {name: public}


Device = tuple[StateDirectory, GuardProcess]


@pytest.fixture
def device(tmp_path: Path, key: tuple[Path, dict[str, str]]) -> Iterator[Device]:
    with guarded_state(tmp_path, key[1]) as found:
        found[1].reach("STANDBY")
        yield found


def latched(guard: GuardProcess) -> str:
    """Kills the worker of an armed guard; the id of the latch once its cause is clear."""
    os.kill(guard.pid("perception"), signal.SIGKILL)
    guard.reach("SAFE")
    status = guard.wait(lambda status: status["tripped"] == [] and status["not_evaluated"] == [])
    return str(status["latch"]["id"])


@contextlib.contextmanager
def standing_still(guard: GuardProcess) -> Iterator[None]:
    """An adapter with a sensor of its own says so, again and again."""
    over = threading.Event()

    def say() -> None:
        while not over.wait(0.1):
            guard.ask(ask="standstill", moves=False)

    adapter = threading.Thread(target=say)
    adapter.start()
    try:
        guard.wait(lambda status: status["standstill"] is True)
        yield
    finally:
        over.set()
        adapter.join()


def test_from_standby_to_motion_and_back(cli: Cli, device: Device) -> None:
    state, guard = device
    armed = cli("guard", "arm", "--state", state.path)
    assert (armed.code, armed.out) == (0, "NOMINAL: it may move\n")
    assert guard.status()["permit"]
    assert cli("guard", "arm", "--state", state.path).out == "it may move already\n"
    disarmed = cli("guard", "disarm", "--state", state.path)
    assert (disarmed.code, disarmed.out) == (0, "STANDBY: nothing may move\n")
    assert not guard.status()["permit"]
    assert cli("guard", "disarm", "--state", state.path).code == 0
    nothing = cli("guard", "reset", "--latch", "x", "--state", state.path)
    assert (nothing.code, nothing.err) == (1, "error: nothing is latched: the state is STANDBY\n")


def test_a_latch_is_left_by_who_names_and_signs_it(
    cli: Cli, device: Device, key: tuple[Path, dict[str, str]]
) -> None:
    state, guard = device
    guard.arm()
    latch = latched(guard)

    def ack(*arguments: object) -> Any:
        return cli("guard", "ack", *arguments, "--state", state.path)

    refused = cli("guard", "arm", "--state", state.path)
    assert refused.code == 1
    assert refused.err == (
        "error: the request to arm is refused: the state is SAFE, and it has to be STANDBY\n"
    )
    other = ack("--latch", "0123456789ab", "--key", key[0])
    assert (other.code, other.err) == (1, f"error: 0123456789ab is not what is latched; that is {latch}\n")
    stranger = ack("--latch", latch, "--key", key[0], "--name", "bob")
    assert stranger.code == 1
    assert "does not know its key under guard.keys.bob" in stranger.err
    needless = cli("guard", "reset", "--latch", latch, "--state", state.path)
    assert needless.code == 1
    assert f"latch {latch} needs no reset: edge-runtime guard ack" in needless.err
    assert guard.status()["state"] == "SAFE"
    good = ack("--latch", latch, "--key", key[0], "--note", "looked at it")
    assert (good.code, good.err) == (0, "")
    assert (
        good.out
        == f"latch {latch} is acknowledged by ann\nSTANDBY; next: edge-runtime guard arm --state {state.path}\n"
    )
    assert guard.status()["state"] == "STANDBY"
    again = ack("--latch", latch, "--key", key[0])
    assert (again.code, again.err) == (1, "error: nothing is latched: the state is STANDBY\n")


def test_a_record_is_signed_on_another_machine(
    cli: Cli, device: Device, key: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    state, guard = device
    guard.arm()
    latch = latched(guard)
    file, wrong = tmp_path / "ack.json", tmp_path / "wrong.json"

    def sign(name: str, out: Path) -> Any:
        return cli("guard", "ack", "--latch", latch, "--device", name, "--key", key[0], "--out", out)

    assert sign("robot-1", file).code == 0
    assert sign("robot-2", wrong).code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert "exists; nothing is overwritten" in sign("robot-1", file).err
    refused = cli("guard", "ack", "--record", wrong, "--state", state.path)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == "error: the acknowledgement is refused: it is about another device\n"
    assert cli("guard", "ack", "--record", file, "--state", state.path).code == 0
    assert guard.status()["state"] == "STANDBY"


def test_what_keeps_a_latch_is_said_in_the_words_of_the_guard(
    cli: Cli, key: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    fault = f"trip:{Condition.SOC_CRITICAL.mask}"
    with guarded_state(tmp_path, key[1], fault=fault) as (state, guard):
        guard.arm()
        os.kill(guard.pid("perception"), signal.SIGUSR1)
        latch = guard.reach("SAFE")["latch"]["id"]
        refused = cli("guard", "ack", "--latch", latch, "--key", key[0], "--state", state.path)
        assert refused.code == 1
        assert refused.err == "error: the acknowledgement is refused: these are not clear: soc_critical\n"


def test_a_lockout_is_reset_by_who_names_it_first(
    cli: Cli, key: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    profile = altered(PATIENT, {"conditions.worker_dead.severity": "lockout"})
    with guarded_state(tmp_path, key[1], profile=profile) as (state, guard):
        guard.arm()
        os.kill(guard.pid("perception"), signal.SIGKILL)
        latch = guard.reach("LOCKOUT")["latch"]["id"]
        guard.wait(lambda status: status["tripped"] == [] and status["not_evaluated"] == [])
        place = ("--state", state.path)
        early = cli("guard", "ack", "--latch", latch, "--key", key[0], *place)
        assert early.code == 1
        assert "somebody at the machine has to reset it first" in early.err
        unnamed = cli("guard", "reset", *place)  # no terminal to ask at
        assert (unnamed.code, "--latch ID" in unnamed.err) == (2, True)
        wrong = cli("guard", "reset", "--latch", "123", *place)
        assert (wrong.code, wrong.err) == (1, f"error: 123 is not what is latched; that is {latch}\n")
        done = cli("guard", "reset", "--latch", latch, *place)
        assert done.code == 0
        assert (
            done.out
            == f"reset; next: edge-runtime guard ack --latch {latch} --key FILE --state {state.path}\n"
        )
        moving = cli("guard", "ack", "--latch", latch, "--key", key[0], *place)
        assert (moving.code, "standstill is not confirmed" in moving.err) == (1, True)
        with standing_still(guard):
            assert cli("guard", "ack", "--latch", latch, "--key", key[0], *place).code == 0


def test_a_reset_at_a_terminal_shows_what_is_latched_and_wants_its_id(tmp_path: Path) -> None:
    profile = altered(PATIENT, {"conditions.worker_dead.severity": "lockout"})
    with guarded_state(tmp_path, profile=profile) as (state, guard):
        guard.arm()
        os.kill(guard.pid("perception"), signal.SIGKILL)
        latch = guard.reach("LOCKOUT")["latch"]["id"]
        for typed, code, said in (("0000", 1, "0000 is not what is latched"), (latch, 0, "reset; next: ")):
            with Terminal("guard", "reset", "--state", str(state.path)) as terminal:
                terminal.until("a worker process ended (worker_dead)")
                terminal.until("Then type the latch's id: ")
                terminal.press(f"{typed}\n")
                terminal.until(said)
                assert terminal.code() == code


def test_a_passphrase_is_asked_for_at_a_terminal_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "ann.pem"
    with Terminal("guard", "key", "new", str(file), "--passphrase") as terminal:
        for question in ("New passphrase: ", "Repeat for confirmation: "):
            terminal.until(question)
            terminal.press("correct horse\n")
        terminal.until("ann: ")
        assert terminal.code() == 0
        assert "horse" not in terminal.all
    with Terminal("guard", "key", "show", str(file)) as terminal:
        terminal.until(f"Passphrase of {file}: ")
        terminal.press("correct horse\n")
        terminal.until("ann: ")
        assert terminal.code() == 0


def test_without_a_guard_every_order_is_refused_in_a_sentence(
    cli: Cli, key: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    state = StateDirectory(tmp_path / "state").ensure()
    for command in (("arm",), ("disarm",), ("reset",), ("ack", "--latch", "1", "--key", key[0])):
        found = cli("guard", *command, "--state", state.path)
        assert (found.code, found.out) == (1, "")
        assert found.err == (
            f"error: no guard answers at {state.guard_socket}: No such file or directory; is the runtime running?\n"
        )
    nowhere = cli("guard", "arm", "--state", tmp_path / "none")
    assert (nowhere.code, nowhere.err) == (
        2,
        f"error: there is no state directory {tmp_path / 'none'}; name it with --state\n",
    )


def test_a_guard_of_another_user_is_said_to_be_one(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state").ensure()
    state.path.chmod(0)
    user = os.geteuid()
    try:
        if user == 0:  # who may enter any folder
            os.seteuid(65534)
        with pytest.raises(NoGuard, match=r"Permission denied; be its user$"):
            asked_status(state.guard_socket)
    finally:
        os.seteuid(user)
        state.path.chmod(0o700)


def test_a_key_is_read_by_its_owner_alone_and_never_overwritten(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "ann.pem"
    made = cli("guard", "key", "new", file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert cli("guard", "key", "show", file).out == made.out
    assert cli("guard", "key", "show", file, "--name", "bob").out == made.out.replace("ann", "bob", 1)
    again = cli("guard", "key", "new", file)
    assert (again.code, again.err) == (2, f"error: {file} exists; nothing is overwritten\n")
    file.chmod(0o640)
    open_key = cli("guard", "key", "show", file)
    assert (open_key.code, "chmod 600" in open_key.err) == (2, True)


def test_a_key_with_a_passphrase_needs_it(cli: Cli, tmp_path: Path) -> None:
    file, secret = tmp_path / "ann.pem", tmp_path / "secret"
    secret.write_text("correct horse\n")
    made = cli("guard", "key", "new", file, "--passphrase-file", secret)
    assert made.code == 0
    assert b"ENCRYPTED" in file.read_bytes()
    assert cli("guard", "key", "show", file, "--passphrase-file", secret).out == made.out
    assert "has a passphrase" in cli("guard", "key", "show", file).err
    secret.write_text("wrong\n")
    wrong = cli("guard", "key", "show", file, "--passphrase-file", secret)
    assert (wrong.code, wrong.err) == (2, f"error: {file} is damaged, or the passphrase is wrong\n")
    secret.write_text("\n")
    empty = cli("guard", "key", "new", tmp_path / "b.pem", "--passphrase-file", secret)
    assert (empty.code, "no passphrase" in empty.err) == (2, True)
    assert not (tmp_path / "b.pem").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name what you acknowledge with --latch ID"),
        (("--latch", "1"), "sign it with --key FILE"),
        (("--latch", "1", "--key", "none.pem"), "none.pem: No such file or directory"),
        (("--latch", "1", "--key", "text.pem"), "text.pem is no private key in PEM"),
        (("--latch", "1", "--key", "ec.pem"), "ec.pem is not an Ed25519 key"),
        (("--latch", "1", "--key", "."), "is no name of a key"),
        (("--latch", "1", "--key", "ann.pem", "--device", "robot-1"), "--device and --out go together"),
        (("--latch", "1", "--key", "ann.pem", "--out", "x"), "--device and --out go together"),
        (("--record", "text.pem"), "text.pem is no acknowledgement"),
        (("--record", "text.pem", "--latch", "1"), "--record holds all that is said"),
        (
            ("--latch", "1", "--key", "ann.pem", "--device", "a", "--out", "x", "--note", "x" * 600),
            "at most 600 bytes",
        ),
        (
            ("--latch", "1", "--key", "ann.pem", "--device", "a", "--out", "none/x"),
            "none/x: No such file or directory",
        ),
    ],
)
def test_bad_input_of_an_acknowledgement_is_one_sentence(
    arguments: tuple[str, ...],
    said: str,
    cli: Cli,
    key: tuple[Path, dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from edge_runtime.identity.keys import key_pem, new_key

    monkeypatch.chdir(tmp_path)
    for name, data in (("text.pem", b"hello"), ("ec.pem", key_pem(new_key()))):
        Path(name).write_bytes(data)
        Path(name).chmod(0o600)
    found = cli("guard", "ack", *arguments)
    assert (found.code, found.out) == (2, "")
    assert said in found.err
    assert found.err.count("\n") == 1
    assert not Path("x").exists()
