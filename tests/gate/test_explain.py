"""`edge-runtime gate explain` and `check`: the answer of the gate for one event, for people and for programs."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.cli.main import run
from tests.conftest import REPOSITORY
from tests.rigs.events import FakeClock
from tests.rigs.gate import POLICY, event

SITE_STANDARD = REPOSITORY / "deploy" / "policies" / "site_standard.yaml"


class Cli:
    """Runs commands of the group in an empty state directory."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        self.policy = folder / "policy.yaml"
        self.policy.write_text(POLICY)

    def __call__(self, *arguments: object, code: int = 0) -> str:
        assert run(["gate", *map(str, arguments)]) == code
        said = self._capsys.readouterr()
        self.errors = said.err
        return said.out

    def event(self, text: bytes | str | None = None, **changes: Any) -> Path:
        path = self.folder / "event.json"
        if text is None:
            text = event(FakeClock(), **changes).model_dump_json(exclude_none=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def explain(self, path: Path, policy: Path | None = None) -> dict[str, Any]:
        answer = json.loads(self("explain", path, "--policy", policy or self.policy, "--json"))
        assert isinstance(answer, dict)
        return answer


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("EDGE_RUNTIME_STATE", str(tmp_path / "state"))
    return Cli(tmp_path, capsys)


def test_sent_held_and_kept(cli: Cli) -> None:
    sent = cli.explain(cli.event())
    assert (sent["decision"], sent["reasons"]) == ("send", ["permitted"])
    assert sent["policy"].startswith("sha256:")
    assert (sent["permit"], sent["recipients"], sent["purpose"]) == ("alerts", ["fleet"], "safety")
    held = cli.explain(cli.event(severity="notice"))
    assert (held["decision"], held["reasons"], held["recipients"]) == ("hold", ["no_permit"], [])
    assert held["considered"] == [{"permit": "alerts", "reasons": ["no_permit"]}]
    kept = cli.explain(cli.event(rule="heartbeat-2"))
    assert (kept["decision"], kept["reasons"]) == ("keep", ["never_escalate"])
    assert sent["policy"] == held["policy"] == kept["policy"]


def test_people_read_sentences(cli: Cli) -> None:
    text = cli("explain", cli.event(), "--policy", cli.policy)
    assert "send: a permit lets it go" in text
    assert "to fleet for safety" in text
    text = cli("explain", cli.event(data_class="unknown"), "--policy", cli.policy)
    assert "write data_class under the camera" in text


@pytest.mark.parametrize("value", [None, "secret", 5, [], "Internal"])
def test_a_missing_or_garbled_class_is_unknown_and_held(cli: Cli, value: Any) -> None:
    fields = json.loads(cli.event().read_text())
    if value is None:
        del fields["data_class"]
    else:
        fields["data_class"] = value
    answer = cli.explain(cli.event(json.dumps(fields)))
    assert (answer["decision"], answer["reasons"]) == ("hold", ["class_unknown"])


def test_an_event_laid_out_over_many_lines_or_on_stdin(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = json.loads(cli.event().read_text())
    assert cli.explain(cli.event(json.dumps(fields, indent=2)))["decision"] == "send"
    assert (
        cli.explain(cli.event(b"\xef\xbb\xbf" + json.dumps(fields).encode() + b"\n\n"))["decision"] == "send"
    )
    stdin = io.TextIOWrapper(io.BytesIO(json.dumps(fields).encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert json.loads(cli("explain", "-", "--policy", cli.policy, "--json"))["decision"] == "send"


def test_without_a_policy_and_with_a_broken_one_it_holds(cli: Cli) -> None:
    absent = cli.explain(cli.event(), cli.folder / "none.yaml")
    assert (absent["decision"], absent["reasons"], absent["policy"]) == ("hold", ["no_policy"], None)
    cli.policy.write_text(POLICY + "oops: 1\n")
    broken = cli.explain(cli.event())
    assert (broken["decision"], broken["reasons"], broken["policy"]) == ("hold", ["policy_unreadable"], None)
    assert "oops" in cli.errors
    assert "oops" in broken["policy_problems"][0]
    assert json.loads(cli("explain", cli.event(), "--json"))["reasons"] == ["no_policy"]  # that of the state


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\n\n",
        b"not json",
        b"[]",
        b"5",
        b"null",
        b"{}",
        b"{",
        b"\xff\xfe\x00",
        b'{"id": ' + b"[" * 100_000,
        b'{"v": 1}\n{"v": 1}\n',
        b'{"a": NaN}',
        b"\x00" * 100,
        b'{"id": "' + b"x" * (1 << 20) + b'"}',
    ],
)
def test_garbage_is_one_sentence(cli: Cli, garbage: bytes) -> None:
    assert cli("explain", cli.event(garbage), "--policy", cli.policy, code=2) == ""
    assert cli.errors.startswith("error: ")
    assert cli.errors.count("\n") == 1
    assert "Traceback" not in cli.errors
    assert len(cli.errors) < 400


def test_files_that_are_none_are_one_sentence(cli: Cli) -> None:
    for path in (cli.folder / "none.json", cli.folder, Path("/dev/null"), cli.folder / "a\0b"):
        cli("explain", path, "--policy", cli.policy, code=2)
        assert cli.errors.count("\n") == 1


def test_a_wrong_field_is_named_and_its_value_is_not(cli: Cli) -> None:
    fields = json.loads(cli.event().read_text())
    cli("explain", cli.event(json.dumps({**fields, "severity": "CANARY"})), "--policy", cli.policy, code=2)
    assert "severity" in cli.errors
    assert "CANARY" not in cli.errors


def test_a_canary_in_content_is_not_repeated(cli: Cli) -> None:
    path = cli.event(label="CANARY-7f", reason="CANARY-7f", direction="CANARY-7f")
    assert "CANARY" not in cli("explain", path, "--policy", cli.policy) + cli.errors
    assert "CANARY" not in json.dumps(cli.explain(path))


def test_check_says_whether_a_policy_is_valid(cli: Cli) -> None:
    assert "valid; recipients: 1, permits: 1; sha256:" in cli("check", cli.policy)
    answer = json.loads(cli("check", cli.policy, "--json"))
    assert answer["valid"]
    assert answer["digest"] == cli.explain(cli.event())["policy"]
    cli.policy.write_text(POLICY.replace("to: [fleet]", "to: [x]") + "oops: 1\n")
    assert cli("check", cli.policy, code=2) == ""
    assert cli.errors.count("\n") == 2
    broken = json.loads(cli("check", cli.policy, "--json", code=2))
    assert [problem["line"] for problem in broken["problems"]] == [7, 13]


@pytest.mark.parametrize(
    ("changes", "decision", "permit"),
    [
        ({"severity": "critical"}, "send", "alarms"),
        ({"severity": "warning"}, "send", "warnings"),
        ({"severity": "info"}, "send", "operations"),
        ({"data_class": "confidential"}, "hold", None),
        ({"data_class": "restricted", "severity": "critical"}, "hold", None),
        ({"rule": "heartbeat"}, "keep", None),
    ],
)
def test_the_standard_policy_of_a_site(
    cli: Cli, changes: dict[str, Any], decision: str, permit: str | None
) -> None:
    answer = cli.explain(cli.event(**changes), SITE_STANDARD)
    assert (answer["decision"], answer["permit"]) == (decision, permit)


def test_offline_first_sends_nothing(cli: Cli) -> None:
    policy = SITE_STANDARD.with_name("offline_first.yaml")
    for data_class in ("public", "internal", "confidential", "restricted", "unknown"):
        assert (
            cli.explain(cli.event(data_class=data_class, severity="critical"), policy)["decision"] == "hold"
        )


def test_without_a_state_directory_the_others_say_so(cli: Cli) -> None:
    for command in (["list"], ["show", "0" * 32], ["receipts"]):
        cli(*command, code=2)
        assert "there is no state directory" in cli.errors


@pytest.mark.parametrize("name", ["offline_first", "site_standard"])
def test_a_starter_is_printed_and_valid(cli: Cli, name: str) -> None:
    cli.policy.write_text(cli("starter", name))
    assert cli.policy.read_text() == SITE_STANDARD.with_name(f"{name}.yaml").read_text()
    assert "valid" in cli("check", cli.policy)
