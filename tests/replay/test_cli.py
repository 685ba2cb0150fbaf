"""`edge-runtime record` and `edge-runtime replay` as people use them: a real model, real frames, real processes."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from edge_runtime.recording import Standing, open_recording
from edge_runtime.recording.folder import PICTURES
from tests.cli.conftest import Cli
from tests.rigs.cameras import wait_until
from tests.rigs.tiny_detector import tiny_package

RULES: list[dict[str, Any]] = [
    {"kind": "occupancy", "name": "faces", "at_least": 1, "hold": 0},
    {
        "kind": "zone",
        "name": "left",
        "polygon": [[0, 0], [0.5, 0], [0.5, 1], [0, 1]],
        "on": ["enter", "leave"],
    },
    {"kind": "count", "name": "many", "at_least": 3, "window": 5},
]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("packages")
    tiny_package(root / "tiny")
    tiny_package(root / "other", seed=2)
    return root


def site(folder: Path, packages: Path, *, model: str = "tiny", **more: Any) -> Path:
    source = {"kind": "synthetic", "width": 192, "height": 128, "fps": 30, "pacing": "every_frame"}
    camera = {"source": source, "model": "m", "data_class": "internal", "rules": RULES} | more
    settings = {"package": str(packages / model), "threads": 1, "accept_licences": ["NOASSERTION"]}
    document = {"version": 1, "models": {"m": settings}, "cameras": {"yard": camera}}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "site.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, packages: Path) -> Path:
    """A recording with frames, and beside it the configuration and the events of the run."""
    from edge_runtime.cli.main import run

    folder = tmp_path_factory.mktemp("recorded")
    config = site(folder, packages)
    code = run(
        ["record", str(config), str(folder / "rec"), "--frames", "--max-frames", "60",
         "--events", str(folder / "events.ndjson")]
    )  # fmt: skip
    assert code == 0
    return folder / "rec"


def test_a_recording_replays_to_the_events_of_its_run(cli: Cli, recorded: Path, tmp_path: Path) -> None:
    done = cli("replay", recorded)
    assert done.code == 0, done.err
    assert "cameras-000001: " in done.out
    assert "ended in order" in done.out
    assert "events, as expected" in done.out
    against = recorded.parent / "events.ndjson"
    assert cli("replay", recorded, "--against", against, "--events", tmp_path / "a.ndjson").code == 0
    assert cli("replay", recorded, "--events", tmp_path / "b.ndjson").code == 0
    assert (tmp_path / "a.ndjson").read_bytes() == (tmp_path / "b.ndjson").read_bytes()
    assert (
        len((tmp_path / "a.ndjson").read_bytes().splitlines()) == len(against.read_bytes().splitlines()) > 3
    )


def test_frames_give_the_boxes_that_were_seen_in_them(cli: Cli, recorded: Path) -> None:
    config = recorded.parent / "site.yaml"
    done = cli("replay", recorded, "--part", "perception", "--config", config)
    assert done.code == 0, done.err
    assert "60 frames looked at anew: 0 differ" in done.out
    without = cli("replay", recorded, "--part", "perception")
    assert (without.code, "name their configuration with --config" in without.err) == (1, True)


def test_another_model_is_refused_and_anyway_shows_what_it_sees(
    cli: Cli, recorded: Path, packages: Path, tmp_path: Path
) -> None:
    other = site(tmp_path, packages, model="other")
    refused = cli("replay", recorded, "--part", "perception", "--config", other)
    assert refused.code == 2
    assert "configuration sha256:" in refused.err
    done = cli("replay", recorded, "--part", "perception", "--config", other, "--anyway")
    assert done.code in (0, 3)
    assert "60 frames looked at anew: 0 differ" not in done.out
    assert "frames looked at anew" in done.out


def test_the_same_configuration_with_another_model_behind_it_is_refused(
    cli: Cli, recorded: Path, packages: Path
) -> None:
    config, hidden = recorded.parent / "site.yaml", packages / "hidden"
    (packages / "tiny").rename(hidden)
    (packages / "other").rename(packages / "tiny")
    try:
        done = cli("replay", recorded, "--part", "perception", "--config", config)
    finally:
        (packages / "tiny").rename(packages / "other")
        hidden.rename(packages / "tiny")
    assert done.code == 2
    assert "was recorded with model sha256:" in done.err
    assert done.err.count("\n") == 1


def test_a_difference_is_exit_code_3_and_a_readable_line(cli: Cli, recorded: Path, tmp_path: Path) -> None:
    lines = (recorded.parent / "events.ndjson").read_bytes().splitlines(keepends=True)
    reference = tmp_path / "reference.ndjson"
    reference.write_bytes(b"".join(lines[1:]))
    done = cli("replay", recorded, "--against", reference)
    assert done.code == 3
    assert done.out.splitlines()[-2].startswith("extra ")
    assert f"{len(lines)} events, {len(lines) - 1} expected: 1 difference" in done.out
    told = json.loads(cli("replay", recorded, "--against", reference, "--json").out)
    assert (told["same"], told["differences"][0]["kind"], told["frames"]) == (False, "extra", {"yard": 60})


def test_a_recording_becomes_a_test(cli: Cli, recorded: Path, tmp_path: Path) -> None:
    case = tmp_path / "case"
    assert cli("replay", recorded, "--part", "rules", "--as-test", case, "--note", "two faces").code == 0
    done = cli("replay", case)
    assert (done.code, "events, as expected" in done.out) == (0, True)
    expected = case / "expected.rules.ndjson"
    expected.write_bytes(expected.read_bytes().replace(b'"notice"', b'"critical"', 1))
    changed = cli("replay", case)
    assert changed.code == 3
    assert "severity critical -> notice" in changed.out
    refused = cli(
        "replay",
        recorded,
        "--part",
        "perception",
        "--config",
        recorded.parent / "site.yaml",
        "--as-test",
        case,
    )
    assert refused.code == 1


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["{none}"], 1, "is not there: name the folder of a recording"),
        (["{rec}", "--part", "soul"], 2, "--part takes one of"),
        (["{rec}", "--part", "health"], 1, "there is nothing in it for --part health"),
        (["{rec}", "--from", "3", "--until", "2"], 2, "--until must be greater"),
        (["{rec}", "--against", "{rec}"], 1, "cannot be read"),
        (["{rec}", "--against", "{site}"], 1, "line 1 is no event"),
        (["{rec}", "--events", "-", "--json"], 2, "choose one"),
        (["{rec}", "--events", "{rec}"], 1, "cannot be written"),
        (["{rec}", "--config", "{none}"], 2, "there is no such file"),
    ],
)
def test_whatever_cannot_be_used_is_one_sentence(
    cli: Cli, recorded: Path, tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    places = {"{rec}": recorded, "{none}": tmp_path / "none", "{site}": recorded.parent / "site.yaml"}
    done = cli("replay", *(places.get(word, word) for word in arguments))
    assert done.code == code
    assert said in done.err
    assert "Traceback" not in done.err


def test_frames_are_recorded_only_where_their_class_is_known(
    cli: Cli, packages: Path, tmp_path: Path
) -> None:
    config = site(tmp_path, packages, data_class="confidential")
    done = cli("record", config, tmp_path / "rec", "--frames", "--max-frames", "10")
    assert done.code == 0, done.err
    assert "camera yard is confidential" in done.out + done.err
    (part,) = open_recording(tmp_path / "rec")
    assert not part.head.cameras["yard"].pictures
    assert not (part.folder / PICTURES).exists()
    assert cli("replay", tmp_path / "rec").code == 0


def test_a_folder_that_is_not_empty_is_refused(cli: Cli, recorded: Path) -> None:
    done = cli("record", recorded.parent / "site.yaml", recorded)
    assert (done.code, "is not empty: name a new folder" in done.err) == (1, True)
    word = cli("record", recorded.parent / "site.yaml", recorded, "--when-full", "never")
    assert (word.code, "takes stop or oldest" in word.err) == (2, True)


def test_a_run_ends_with_its_recording(cli: Cli, packages: Path, tmp_path: Path) -> None:
    config = site(tmp_path, packages)
    done = cli("record", config, tmp_path / "rec", "--seconds", "1")
    assert done.code == 0, done.err
    assert "its time was over" in done.out
    (part,) = open_recording(tmp_path / "rec")
    standing = Standing()
    assert len(list(part.records(standing))) == standing.records
    assert standing.why == "time"
    assert cli("replay", tmp_path / "rec").code == 0


def test_a_run_that_is_killed_leaves_what_can_be_replayed(cli: Cli, packages: Path, tmp_path: Path) -> None:
    config = site(tmp_path, packages)
    command = [sys.executable, "-m", "edge_runtime.cli.main", "record", str(config), str(tmp_path / "rec")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:

        def frames() -> bool:
            parts = list((tmp_path / "rec").glob("cameras-*/*.flight"))
            return bool(parts) and parts[0].stat().st_size > 20_000

        assert wait_until(frames, 180)
        process.send_signal(signal.SIGKILL)
    done = cli("replay", tmp_path / "rec")
    assert "its process was killed" in done.out
    assert done.code == 0, done.out + done.err
