"""`edge-runtime recorder dump`: what a person reads of a device that is dead, damaged, or still running."""

import json
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.cli.recorder_since import since_ms
from edge_runtime.errors import ConfigError
from edge_runtime.monitor.flight import FLIGHT, FlightRecord, FlightWriter, encode_record, segments
from tests.cli.conftest import Cli

T0_MS = 1_790_000_000_000
BOOT = "9f3c2a1b-0000-4000-8000-000000000000"
MEASURED: dict[str, Any] = {
    "temperatures": {"cpu-thermal": 53.9, "gpu-thermal": 50.1},
    "throttled": False,
    "throttled_by": [],
    "memory_mib": 1500,
    "memory_full_percent": None,
    "disk_mib": {"state": 2000},
    "queue": {"state": "healthy", "queued": 3, "mib": 0.1, "fill": 0.0, "oldest_s": 1},
    "cameras": {"yard": ["running", 80]},
    "batteries": {"main": [0.73, 24.15], "arm": [None, None]},
    "reports": [0, 0],
    "round_ms": 2.0,
}

TURN: dict[str, Any] = {
    "state": "NOMINAL",
    "mode": "drive",
    "permit": True,
    "tripped": "4000000",
    "late_worst_us": 120,
}


def record(kind: str, at_s: float, *, boot: str = BOOT, synced: bool = True, **fields: Any) -> FlightRecord:
    return FlightRecord(kind, round(at_s * 1e9), T0_MS + round(at_s * 1000), synced, boot, fields)


STORY = [
    record("start", 0, version="1.2", config="sha256:0123456789abcdef", pid=12, ring="r", after=None),
    record("conditions", 0, tripped=[], not_evaluated=[], why={}),
    *[record("measured", at, **MEASURED) for at in range(25)],
    *[record("turn", at, **TURN) for at in range(25)],
    record("worker", 25, name="perception", phase="killed", pid=77, exit=-9),
    record("change", 25.5, before="NOMINAL", state="SAFE", causes=["worker_hung"], latch="ab12", event="e"),
    record("handed", 26),
    record(
        "conditions", 27,
        tripped=["disk_nearly_full"], not_evaluated=["memory_pressure"],
        why={"disk_nearly_full": "state: 1 MiB free of 90", "memory_pressure": "not there"},
    ),
    record("lost", 28, ring=3, recorder=0),
    record("other", 29, of=77, payload="00"),
    record("news", 30, x=1),
    record("measured", 31, nothing=True),
    record("end", 32),
    record("start", 1, boot="another", synced=False, version="1", config="c", pid=13, ring=None, after=None),
]  # fmt: skip


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state" / "guard" / FLIGHT
    folder.parent.mkdir(parents=True)
    FlightWriter(folder, 1 << 20).append([encode_record(one) for one in STORY])
    return tmp_path / "state"


def test_a_person_reads_what_happened_in_its_order_within_80_columns(state: Path, cli: Cli) -> None:
    done = cli("recorder", "dump", "--state", state)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    text = " ".join(done.out.split())
    for words in (
        "2026-09-21 UTC, boot 9f3c2a1b",
        "monitor 1.2 began under a guard, pid 12, configuration sha256:0123456789ab",
        "monitor 1 began without a guard, pid 13, configuration c",
        "monitor: all that it looks at is well",
        "53.9 C cpu-thermal · 1500 MiB of memory · state 2000 MiB · 3 queued (healthy)",
        "· yard running 80 ms · main 73 % 24.15 V · arm unknown",
        "guard NOMINAL (drive), may move, at worst 120 us late; holds: link_lost",
        "worker perception is killed, pid 77, last exit -9",
        "STATE NOMINAL -> SAFE (latch ab12): a worker finished no work within its deadline (worker_hung)",
        "monitor: disk_nearly_full (state: 1 MiB free of 90); memory_pressure not evaluated (not there)",
        "LOST 3 entries of the guard",
        "an entry of a newer guard, kind 77",
        "news: not known to this version",
        "measured: written by another version",
        "monitor ended in order",
        "boot another, clock not synchronised",
    ):
        assert words in text, words
    assert text.count("cpu-thermal") == 3  # of 25, one in ten seconds
    assert text.count("may move") == 3
    assert text.index("worker perception") < text.index("STATE NOMINAL") < text.index("LOST")


def test_every_measurement_can_be_asked_for(state: Path, cli: Cli) -> None:
    assert cli("recorder", "dump", "--state", state, "--every", 0).out.count("cpu-thermal") == 25


def test_a_program_reads_every_record_as_json(state: Path, cli: Cli) -> None:
    done = cli("recorder", "dump", "--state", state, "--json")
    assert [json.loads(line) for line in done.out.splitlines()] == [one.to_json() for one in STORY]


def test_since_counts_back_from_the_newest_record(state: Path, cli: Cli) -> None:
    done = cli("recorder", "dump", "--state", state, "--json", "--since", "5s")
    kinds = [json.loads(line)["kind"] for line in done.out.splitlines()]
    assert kinds == ["conditions", "lost", "other", "news", "measured", "end"]
    assert cli("recorder", "dump", "--state", state, "--since", "2100-01-01").out == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30s", T0_MS - 30_000),
        ("15m", T0_MS - 900_000),
        ("15 min", T0_MS - 900_000),
        ("2h", T0_MS - 7_200_000),
        ("1d", T0_MS - 86_400_000),
        ("2026-11-29T23:00", 1_795_993_200_000),
        ("2026-11-29T23:00:00+01:00", 1_795_989_600_000),
    ],
)
def test_a_time_or_a_span(text: str, expected: int) -> None:
    assert since_ms(text, T0_MS) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "-5m", "5", "5y", "2026-13-01"])
def test_what_is_neither_is_refused(text: str, state: Path, cli: Cli) -> None:
    with pytest.raises(ConfigError, match="--since"):
        since_ms(text, T0_MS)
    done = cli("recorder", "dump", "--state", state, "--since", text)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)


def test_damage_is_skipped_and_counted_on_stderr(state: Path, cli: Cli) -> None:
    (path,) = segments(state / "guard" / FLIGHT)
    data = bytearray(path.read_bytes())
    data[500:510] = b"\x1b[31mHELLO"
    path.write_bytes(data[:-20])
    done = cli("recorder", "dump", "--state", state)
    assert done.code == 0
    assert done.err == "2 torn or damaged lines skipped\n"
    assert "STATE NOMINAL -> SAFE" in done.out
    assert "\x1b" not in done.out


def test_nothing_that_steers_a_terminal_is_printed(tmp_path: Path, cli: Cli) -> None:
    folder = tmp_path / "guard" / FLIGHT
    folder.parent.mkdir()
    FlightWriter(folder, 1 << 20).append([encode_record(record("worker", 1, name="\x1b[2J\n", phase="x"))])
    assert "\x1b" not in cli("recorder", "dump", "--state", tmp_path).out


def test_without_a_recording_or_a_state_directory_it_says_so(tmp_path: Path, cli: Cli) -> None:
    done = cli("recorder", "dump", "--state", tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "no flight recording" in done.err
    assert cli("recorder", "dump", "--state", tmp_path / "absent").code == 2


def test_a_recording_that_cannot_be_read_is_not_said_to_be_none(tmp_path: Path, cli: Cli) -> None:
    folder = tmp_path / "guard" / FLIGHT
    folder.parent.mkdir()
    folder.touch()  # also root cannot list a file
    done = cli("recorder", "dump", "--state", tmp_path)
    assert (done.code, done.out, done.err) == (1, "", f"error: {folder} cannot be read: Not a directory\n")
