"""The demo's events are those that a person sees in the clips, and its files can be looked at."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import av
import cv2
import pytest

from deploy.demo.assets import CLIPS, HERE, MODEL, REPOSITORY, fetch_clip
from edge_runtime.errors import PackageError
from edge_runtime.packages import open_package
from sim.road import ask

pause = threading.Event()
"""Never set: a way to wait for another process without `time.sleep`."""


@pytest.fixture(scope="session")
def assets() -> None:
    """The model and the clips; `make test` fetches them first."""
    try:
        open_package(MODEL)
    except PackageError as error:
        pytest.skip(f"the demo's model is not there ({error}): run `make assets`")
    missing = [name for name in ("carphone.mp4", "bikes.mp4") if not (CLIPS / name).is_file()]
    if missing:
        pytest.skip(f"the demo's clips are not there ({', '.join(missing)}): run `make assets`")


def run_demo(out: Path, *arguments: str, **variables: str) -> list[dict[str, Any]]:
    """The demo without a terminal, as fast as its frames are seen; the events of its camera."""
    done = subprocess.run(
        [sys.executable, "-m", "deploy.demo.run", "--out", str(out), *arguments],
        cwd=REPOSITORY,
        env=clean_environment(DEMO_PACING="every_frame", **variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "frames/s" in done.stdout
    assert "it adds up" in done.stdout
    assert_nothing_runs(out)
    return [json.loads(line) for line in (out / "events.ndjson").read_text().splitlines()]


def clean_environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DEMO_")}
    return kept | variables


def assert_nothing_runs(out: Path) -> None:
    """No process of the demo is left: each has the folder on its command line."""
    left = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
            if str(out) in words and "pytest" not in words:
                left.append(words)
    assert left == []


def at_the_server(out: Path) -> list[dict[str, Any]]:
    """What the demo's server has, oldest first, asked after everything has ended."""
    found = json.loads(ask("fleet", "events", "list", "--data", str(out / "road" / "fleet"), "--json"))
    return sorted(found, key=lambda event: event["id"])


def revisions(events: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return sorted((event["id"], event["revision"]) for event in events)


def story(events: list[dict[str, Any]]) -> list[tuple[str, str, float]]:
    """(rule, what, when) of each event, without updates."""
    return [
        (event["rule"], event.get("direction") or event["state"], event["at"]["media_s"])
        for event in events
        if event["state"] != "updated"
    ]


def assert_story(found: list[tuple[str, str, float]], expected: list[tuple[str, str, float]]) -> None:
    assert [entry[:2] for entry in found] == [entry[:2] for entry in expected]
    for (_, _, when), (rule, what, seen) in zip(found, expected, strict=True):
        # What a person sees is noted by hand; holds and debounces make an event up to 0.5 s later.
        assert seen <= when <= seen + 0.65, (rule, what, when)


FIRST_RIDE = [
    ("driver_present", "started", 0.0),
    ("head_position", "leave", 2.6),
    ("head_position", "enter", 3.7),
    ("driver_present", "ended", 4.4),
]
STREET = [("no_driver", "started", 7.0)]
SECOND_RIDE = [
    ("head_position", "enter", 13.9),
    ("no_driver", "ended", 14.0),
    ("driver_present", "started", 14.0),
    ("head_position", "leave", 16.6),
    ("head_position", "enter", 17.7),
    ("driver_present", "ended", 17.9),
]


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("assets")
def test_the_head_leaves_the_zone_and_returns_and_the_driver_is_gone(tmp_path: Path) -> None:
    events = run_demo(tmp_path, "--max-frames", "150")
    assert_story(story(events), FIRST_RIDE)
    assert {event["data_class"] for event in events} == {"restricted"}
    leaving = next(event for event in events if event.get("direction") == "leave")
    height = leaving["box"]["y2"] - leaving["box"]["y1"]
    assert 0.35 * 576 < height < 0.55 * 576, "the box is about the face"
    with av.open(str(tmp_path / "annotated.mp4")) as video:
        assert sum(1 for _ in video.decode(video=0)) == 150
    sheet = cv2.imread(str(tmp_path / "contact_sheet.png"))
    assert sheet is not None
    assert sheet.shape[1] > 1000
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["frames"] == 150

    arrived = at_the_server(tmp_path)
    assert revisions([stored["event"] for stored in arrived]) == revisions(events), "each once, none missing"
    assert {stored["device"] for stored in arrived} == {"cabin-demo"}
    assert {stored["rule"] for stored in arrived if stored["evidence_sha256"]} == {"head_position"}
    balance = json.loads((tmp_path / "balance.json").read_text())
    assert balance["holds"] is True
    assert balance["unexplained"] == 0
    assert balance["seen"] == len(events) == balance["device"]["accepted"]
    assert balance["own"] == balance["held"] > 0, "no rule of the demo lets out what the guard says"
    assert (
        balance["device"]["delivered"] == balance["server"]["delivered"] == balance["stored"] == len(events)
    )
    assert balance["crops_named"] == balance["crops_stored"] > 0
    assert balance["bytes_up"] > 0


@pytest.mark.trial
@pytest.mark.usefixtures("assets")
def test_the_whole_composition_tells_its_story(tmp_path: Path) -> None:
    events = run_demo(tmp_path)
    assert_story(story(events), FIRST_RIDE + STREET + SECOND_RIDE)
    assert revisions([stored["event"] for stored in at_the_server(tmp_path)]) == revisions(events)
    assert json.loads((tmp_path / "balance.json").read_text())["cut_s"] > 1


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("assets")
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.trial)])
def test_a_signal_ends_a_live_run_with_whole_files(tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "deploy.demo.run", "--out", str(tmp_path)],
        cwd=REPOSITORY,
        env=clean_environment(DEMO_CLIP="synthetic"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "running" in line:
                break
        video = tmp_path / "annotated.mp4"
        while process.poll() is None and (not video.is_file() or video.stat().st_size == 0):
            pause.wait(0.05)
        process.send_signal(number)
        rest = process.stdout.read()
        assert process.wait(60) == 0, rest
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    assert "interrupted" in rest
    with av.open(str(video)) as container:
        frames = sum(1 for _ in container.decode(video=0))
        assert frames == container.streams.video[0].frames > 0
    assert json.loads((tmp_path / "summary.json").read_text())["interrupted"] is True
    balance = json.loads((tmp_path / "balance.json").read_text())
    assert balance["holds"] is True
    assert balance["stored"] == 0, "nobody has said how sensitive it is: nothing leaves"
    assert (tmp_path / "contact_sheet.png").stat().st_size > 1000
    assert_nothing_runs(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_while_the_road_is_built_leaves_nothing_behind(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "deploy.demo.run", "--out", str(tmp_path)],
        cwd=REPOSITORY,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.startswith("road")
        if number is signal.SIGHUP:
            assert process.stdout.readline().startswith("server"), "that runs by now"
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert said == "demo: interrupted\n"
    assert_nothing_runs(tmp_path)


def test_a_second_demo_in_the_same_folder_waits_for_nobody(tmp_path: Path) -> None:
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            [sys.executable, "-m", "deploy.demo.run", "--out", str(tmp_path)],
            cwd=REPOSITORY,
            env=clean_environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 1
    assert done.stderr == f"error: another demo writes to {tmp_path}: wait for it, or choose another OUT\n"


@pytest.mark.usefixtures("assets")
def test_clips_that_are_there_are_not_fetched_again(capsys: pytest.CaptureFixture[str]) -> None:
    clip = CLIPS / "carphone.mp4"
    before = clip.stat().st_mtime_ns
    assert fetch_clip(HERE / "carphone.recipe.json", CLIPS) == clip
    assert clip.stat().st_mtime_ns == before
    assert capsys.readouterr().err == ""


def test_a_model_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "deploy.demo.run", "--out", str(tmp_path)],
        cwd=REPOSITORY,
        env=clean_environment(DEMO_MODEL=str(tmp_path / "absent.onnx")),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("variable", "value"),
    [("DEMO_CLIP", "absent.mp4"), ("DEMO_RULES", "absent.yaml"), ("DEMO_CLIP", "ftp://x/y")],
)
def test_a_clip_or_rules_that_are_not_there_are_one_sentence(
    tmp_path: Path, variable: str, value: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "deploy.demo.run", "--out", str(tmp_path)],
        cwd=REPOSITORY,
        env=clean_environment(**{variable: value}),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
