"""Words on the command line, and which server they mean."""

from pathlib import Path

import pytest

from edge_runtime.errors import ConfigError
from fleet_server.cli.output import clean, size
from fleet_server.cli.target import LocalTarget, RemoteTarget, choose
from fleet_server.cli.values import instant_ms, labels_of, span_s
from fleet_server.in_words import span
from tests.rigs.deliveries import WALL_MS, FakeClock

TOKEN = "eft1." + "a" * 16 + "." + "b" * 43


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("24h", 86_400), ("7d", 604_800)])
def test_spans(text: str, seconds: int) -> None:
    assert span_s(text, "--x") == seconds


@pytest.mark.parametrize("text", ["", "1", "h", "-1h", "1.5h", "1w", "1h30m", "9999999d", "\uff11h"])
def test_no_spans(text: str) -> None:
    with pytest.raises(ConfigError, match="--x"):
        span_s(text, "--x")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1h", WALL_MS - 3_600_000),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T01:00:01+01:00", 1000),
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-02", 86_400_000),
    ],
)
def test_instants(text: str, found: int) -> None:
    assert instant_ms(text, "--since", FakeClock()) == found


@pytest.mark.parametrize("text", ["yesterday", "1969-01-01", "2026-13-01", "'; DROP TABLE events", ""])
def test_no_instants(text: str) -> None:
    with pytest.raises(ConfigError, match="--since"):
        instant_ms(text, "--since", FakeClock())


def test_labels() -> None:
    assert labels_of(["site=dock", "row=a=b", "note="]) == {"site": "dock", "row": "a=b", "note": ""}
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        labels_of(["=x"])


def test_an_option_stands_above_every_variable(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    variables = {"FLEET_SERVER": "https://env:1", "FLEET_TOKEN": str(file), "FLEET_CA": "/ca.pem"}
    assert choose(None, None, None, tmp_path, variables) == LocalTarget(tmp_path)
    found = choose("https://option:2/", None, None, None, variables)
    assert found == RemoteTarget("https://option:2", TOKEN, Path("/ca.pem"))
    assert choose(None, None, None, None, variables) == RemoteTarget("https://env:1", TOKEN, Path("/ca.pem"))
    assert TOKEN not in repr(found)


def test_the_environment_may_hold_the_token_itself() -> None:
    found = choose("https://host:1", None, None, None, {"FLEET_TOKEN": TOKEN})
    assert isinstance(found, RemoteTarget)
    assert found.token == TOKEN


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"FLEET_SERVER": "https://a:1", "FLEET_DATA": "/x"},
        {"FLEET_SERVER": "http://a:1", "FLEET_TOKEN": TOKEN},
        {"FLEET_SERVER": "https://user:pw@a:1", "FLEET_TOKEN": TOKEN},
        {"FLEET_SERVER": "https://a:1/path", "FLEET_TOKEN": TOKEN},
        {"FLEET_SERVER": "https://a:99999", "FLEET_TOKEN": TOKEN},
        {"FLEET_SERVER": "https://a:1"},
        {"FLEET_SERVER": "https://a:1", "FLEET_TOKEN": "eft1.a b"},
        {"FLEET_SERVER": "https://a:1", "FLEET_TOKEN": "/no/such/file"},
    ],
)
def test_no_server_is_refused_and_no_secret_is_repeated(variables: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as refused:
        choose(None, None, None, None, variables)
    assert "pw" not in str(refused.value)
    assert TOKEN not in str(refused.value)


def test_a_text_from_outside_cannot_move_the_cursor() -> None:
    assert clean("dock\x1b[2J\r\n\x9b31m\u202ex") == "dock�[2J���31m�x"


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0s"), (59_999, "59s"), (60_000, "1m"), (3_661_000, "1h 1m"), (90_000_000, "1d 1h"), (-5, "0s")],
)
def test_durations(ms: int, text: str) -> None:
    assert span(ms) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 30, "1.0 GiB")]
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text
