"""The drawn world: the same from the same seed, true to its truth, and visibly worse when it should be."""

import json
import socket
import urllib.request

import numpy as np
import pytest

from edge_runtime.sources.content import ContentCheck
from sim.scenario.records import World
from sim.scene.camera import VirtualCamera, main
from sim.scene.render import Renderer
from sim.scene.world import LABELS, WIDTH, actors, sights

BUSY = World(seed=3, people=4, vehicles=2, pallets=3)


def test_the_same_seed_draws_the_same_picture() -> None:
    first, second = Renderer(BUSY), Renderer(BUSY)
    assert np.array_equal(first.draw(7.5), second.draw(7.5))
    assert not np.array_equal(first.draw(7.5), Renderer(BUSY.model_copy(update={"seed": 4})).draw(7.5))


def test_everybody_is_seen_within_a_minute_and_moves() -> None:
    who = actors(BUSY)
    seen: dict[int, set[float]] = {}
    for tenth in range(600):
        for one in sights(who, tenth / 10):
            seen.setdefault(who.index(one.actor), set()).add(one.box[0])
            assert one.box[0] < one.box[2]
            assert one.box[1] < one.box[3]
    assert set(seen) == set(range(len(who)))
    assert all(len(places) > 10 for places in seen.values())
    assert {LABELS[actor.label] for actor in who} == set(LABELS)


def test_the_picture_changes_where_the_truth_says_that_something_moves() -> None:
    world = World(seed=5, people=1, vehicles=0)
    empty, full = Renderer(world.model_copy(update={"people": 0})), Renderer(world)
    time_s = next(t / 10 for t in range(600) if any(one.visible for one in full.truth(t / 10)))
    (one,) = full.truth(time_s)
    left, top, right, bottom = (round(value) for value in one.box)
    changed = np.abs(full.draw(time_s).astype(int) - empty.draw(time_s).astype(int)).max(axis=2) > 40
    inside = changed[max(0, top) : bottom, max(0, left) : min(WIDTH, right)]
    assert inside.mean() > 0.2
    changed[max(0, top - 12) : bottom + 12, max(0, left - 24) : right + 24] = False
    assert changed.mean() < 0.01


@pytest.mark.parametrize("weather", ["rain", "snow", "fog"])
def test_weather_is_seen(weather: str) -> None:
    clear = Renderer(BUSY).draw(5.0).astype(int)
    worse = Renderer(BUSY.model_copy(update={"weather": weather})).draw(5.0).astype(int)
    assert np.abs(clear - worse).mean() > 3


def test_night_exposure_dirt_and_shake_do_what_they_say() -> None:
    def drawn(**given: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return Renderer(BUSY.model_copy(update=given)).draw(5.0).astype(np.float64)

    plain = drawn()
    assert drawn(night=0.8).mean() < 0.5 * plain.mean()
    assert drawn(exposure=1.0).mean() > 1.3 * plain.mean()
    assert np.abs(np.diff(drawn(dirt=0.8), axis=1)).mean() < np.abs(np.diff(plain, axis=1)).mean()
    assert np.abs(drawn(shake=6.0) - plain).mean() > 2


def test_what_the_runtime_says_of_a_covered_lens_and_of_a_night() -> None:
    renderer = Renderer(BUSY.model_copy(update={"night": 0.7}))
    check = ContentCheck(10**9)
    assert not check.look(renderer.draw(1.0), None, 0).dark
    renderer.covered = True
    assert check.look(renderer.draw(1.1), None, 10**8).dark


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--fps", "0"], "--fps is 0.01 to 100"),
        (["--fps", "nan"], "--fps is 0.01 to 100"),
        (["--fps", "inf"], "--fps is 0.01 to 100"),
        (["--port", "99999"], "--port is 0, for any free one, to 65535"),
        (["--port", "-1"], "--port is 0"),
        (["--night", "2"], "--night: Input should be less than or equal to 1"),
        (["--seed", "-1"], "--seed: Input should be greater than or equal to 0"),
    ],
)
def test_what_it_cannot_play_is_one_sentence(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(f"error: {says}")


def test_a_port_that_is_taken_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["--port", str(port)]) == 2
    assert capsys.readouterr().err == f"error: port {port}: cannot be listened at: Address already in use\n"


def test_it_plays_as_a_network_camera_with_its_truth() -> None:
    camera = VirtualCamera(BUSY, 20.0)
    try:
        with urllib.request.urlopen(camera.url, timeout=30) as stream:
            assert b"--frame" in stream.read(4096)
        with urllib.request.urlopen(camera.url.replace("/video", "/truth"), timeout=30) as answer:
            found = json.load(answer)
    finally:
        camera.close()
    assert all(one["label"] in LABELS and len(one["box"]) == 4 for one in found)
