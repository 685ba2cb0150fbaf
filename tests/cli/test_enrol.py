"""`edge-runtime enrol`: exit codes, one sentence on stderr, and a token that may come from a file."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet_server.storage import open_store, upgrade
from tests.rigs.fleet_api import FleetApi, fleet_api, served
from tests.rigs.pki import MovableClock
from tests.rigs.release_parties import SignedFleet


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[FleetApi]:
    clock = MovableClock()
    yield from fleet_api(tmp_path / "server", f"sqlite:///{tmp_path / 'fleet.db'}", clock=clock)  # type: ignore[arg-type]


@pytest.fixture
def url(fleet: FleetApi) -> Iterator[str]:
    with served(fleet) as url:
        yield url


@pytest.fixture
def token(fleet: FleetApi) -> str:
    return fleet.application.services.registry.invite("alice").token


def test_enrolled_and_again_is_no_second_use(
    cli: Callable[..., Any], url: str, token: str, tmp_path: Path
) -> None:
    state = tmp_path / "device"
    words = ("enrol", "--server", url, "--token", token, "--state", state, "--device", "dev-1")
    done = cli(*words, "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert found["state"] == "active"
    assert found["device"] == "dev-1"
    assert found["identity"] == str(state / "identity")
    again = cli(*words)
    assert again.code == 0
    assert again.out.startswith(f"enrolled as dev-1 at {url}\n")
    assert all(len(line) <= 110 for line in again.out.splitlines())


def test_the_fleets_root_of_releases_is_taken_once_and_never_replaced_in_silence(
    cli: Callable[..., Any], url: str, token: str, fleet: FleetApi, tmp_path: Path
) -> None:
    people = SignedFleet.begin(
        tmp_path / "people", fleet.application.store, desk=fleet.application.services.releases
    )
    root = people.file().roots[-1].encode()
    words = ("enrol", "--server", url, "--token", token, "--state", tmp_path / "a", "--device", "dev-1")
    first = cli(*words)
    assert (first.code, first.err) == (0, "")
    assert (tmp_path / "a" / "updates" / "root.json").read_bytes() == root

    other = tmp_path / "b" / "updates"
    other.mkdir(parents=True)
    elsewhere = open_store(f"sqlite:///{tmp_path / 'elsewhere.db'}")
    upgrade(elsewhere)
    foreign = SignedFleet.begin(tmp_path / "others", elsewhere).file().roots[-1].encode()
    elsewhere.close()
    (other / "root.json").write_bytes(foreign)
    second = fleet.application.services.registry.invite("alice").token
    done = cli("enrol", "--server", url, "--token", second, "--state", tmp_path / "b", "--device", "dev-2")
    assert done.code == 0
    assert "trusts another root of releases than this fleet's, and keeps it" in done.err
    assert (other / "root.json").read_bytes() == foreign


def test_a_root_that_is_none_is_said_and_keeps_no_device_out(
    cli: Callable[..., Any], url: str, token: str, fleet: FleetApi, tmp_path: Path
) -> None:
    fleet.application.services.enrolment.release_root = lambda: '{"signed":{"_type":"root"}}'
    done = cli("enrol", "--server", url, "--token", token, "--state", tmp_path / "a", "--device", "dev-1")
    assert done.code == 0
    assert done.out.startswith("enrolled as dev-1")
    assert "the fleet's root of releases was not taken" in done.err
    assert len(done.err.splitlines()) == 1
    assert not (tmp_path / "a" / "updates" / "root.json").exists()


def test_a_token_from_a_file_or_from_stdin(
    cli: Callable[..., Any],
    url: str,
    fleet: FleetApi,
    token: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "token").write_text(f"{token}\n")
    assert (
        cli("enrol", "--server", url, "--token", f"@{tmp_path / 'token'}", "--state", tmp_path / "a").code
        == 0
    )
    other = fleet.application.services.registry.invite("alice").token
    monkeypatch.setattr("sys.stdin", io.StringIO(other + "\n"))
    assert cli("enrol", "--server", url, "--token", "-", "--state", tmp_path / "b").code == 0


def test_waiting_is_3(cli: Callable[..., Any], url: str, fleet: FleetApi, token: str, tmp_path: Path) -> None:
    first = ("enrol", "--server", url, "--token", token, "--device", "dev-1", "--state", tmp_path / "a")
    assert cli(*first).code == 0
    other = fleet.application.services.registry.invite("alice").token
    words = ("enrol", "--server", url, "--token", other, "--device", "dev-1", "--state", tmp_path / "b")
    waiting = cli(*words)
    assert (waiting.code, waiting.err) == (3, "")
    assert "dev-1 waits for an operator" in waiting.out
    fleet.application.services.registry.approve("bob", "dev-1")
    assert cli(*words).code == 0


def test_a_revoked_device_is_told_so_and_comes_back_with_a_new_token_and_an_operator(
    cli: Callable[..., Any], url: str, fleet: FleetApi, token: str, tmp_path: Path
) -> None:
    words = ("enrol", "--server", url, "--state", tmp_path / "a", "--device", "dev-1", "--token")
    assert cli(*words, token).code == 0
    registry = fleet.application.services.registry
    registry.revoke("bob", "dev-1", None)
    revoked = cli(*words, token)
    assert (revoked.code, revoked.out) == (1, "")
    assert "dev-1 was revoked, removed or enrolled elsewhere" in revoked.err
    assert len(revoked.err.splitlines()) == 1
    other = registry.invite("alice", device="dev-1").token
    waiting = cli(*words, other, "--again", "--json")
    assert waiting.code == 3
    assert json.loads(waiting.out) == {"state": "pending", "device": "dev-1"}
    registry.approve("bob", "dev-1")
    assert cli(*words, other, "--again").code == 0
    assert cli(*words, other).out.startswith("enrolled as dev-1")


def test_a_device_whose_server_is_away_is_enrolled_as_far_as_it_knows(
    cli: Callable[..., Any], fleet: FleetApi, token: str, tmp_path: Path
) -> None:
    with served(fleet) as url:
        words = ("enrol", "--server", url, "--state", tmp_path / "a", "--device", "dev-1", "--token", token)
        assert cli(*words).code == 0
    again = cli(*words)
    assert again.code == 0
    assert again.out.startswith("enrolled as dev-1")
    assert "whether the fleet still takes this device is not known now" in again.err


def test_another_fleet_needs_again(
    cli: Callable[..., Any], url: str, fleet: FleetApi, token: str, tmp_path: Path
) -> None:
    assert cli("enrol", "--server", url, "--token", token, "--state", tmp_path / "a").code == 0
    other = fleet.application.services.registry.invite("alice", needs_approval=True).token
    words = ("enrol", "--server", url, "--token", other, "--state", tmp_path / "a")
    refused = cli(*words)
    assert refused.code == 2
    assert "--again enrols it anew" in refused.err
    assert cli(*words, "--again").code == 3


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--token", "efr1.x"], 2, "damaged enrolment token"),
        (["--token", "something"], 2, "one begins with efr1."),
        (["--token", "@/nowhere/token"], 2, "No such file or directory"),
        (["--serial", "a b"], 2, "--serial has 1 to 64"),
        (["--device", "Not_Lower"], 2, "--device has 1 to 63"),
        (["--server", "http://h"], 2, "--server is an address such as"),
        (["--proxy", "nonsense"], 2, "--proxy is an address"),
        (["--server", "https://127.0.0.1:1"], 1, "cannot be reached"),
        (["--state", "/proc/no"], 2, "state directory"),
    ],
)
def test_what_cannot_be_meant(
    cli: Callable[..., Any], url: str, token: str, tmp_path: Path, words: list[str], code: int, text: str
) -> None:
    given = {"--server": url, "--token": token, "--state": str(tmp_path / "device")}
    given[words[0]] = words[1]
    done = cli("enrol", *[word for pair in given.items() for word in pair])
    assert (done.code, done.out) == (code, "")
    assert text in done.err
    assert done.err.count("\n") == 1
    assert token not in done.err
    assert token.split(".")[1][20:60] not in done.err


def test_a_used_token_is_refused_in_one_sentence(
    cli: Callable[..., Any], url: str, token: str, tmp_path: Path
) -> None:
    words = ("enrol", "--server", url, "--token", token, "--state")
    assert cli(*words, tmp_path / "a").code == 0
    refused = cli(*words, tmp_path / "b")
    assert refused.code == 1
    assert refused.err.startswith("error: the server refused: this token was used already")


def test_again_without_a_wish_asks_for_the_present_id(
    cli: Callable[..., Any], url: str, fleet: FleetApi, token: str, tmp_path: Path
) -> None:
    """A new id on the old outbox would leave the fleet with numbers that nobody can explain."""
    state = tmp_path / "device"
    assert cli("enrol", "--server", url, "--token", token, "--state", state, "--device", "dev-1").code == 0
    second = fleet.application.services.registry.invite("alice").token
    words = ("enrol", "--server", url, "--token", second, "--state", state, "--again", "--json")
    waits = cli(*words)
    assert (waits.code, json.loads(waits.out)) == (3, {"state": "pending", "device": "dev-1"})
