"""A camera's desk when another model answers: whose tracks, whose labels, whose score, whose name in events."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_runtime.config.camera import CameraConfig
from edge_runtime.events import EventDesk
from edge_runtime.node.camera import CameraDesk, Sight
from edge_runtime.perception.detections import Detections, Tracks
from edge_runtime.perception.pipeline import Evaluated, NotEvaluated, StageTimes, Unseen
from edge_runtime.sources import Frame, open_source
from tests.rigs.events import CONFIG, FakeClock
from tests.rigs.swapping import PERSON, Watching

ONE, TWO, SMALL = ("sha256:" + letter * 64 for letter in "abc")
LABELS = ("person", "car")


class Desk:
    """A desk, and objects that stand still in front of it."""

    def __init__(self, **tracking: Any) -> None:
        self.clock = FakeClock()
        config = CameraConfig.model_validate(
            {
                "source": {"kind": "synthetic"},
                "model": "m",
                "data_class": "public",
                "rules": [PERSON],
                "tracking": tracking,
            },
            context={"checked": True},
        )
        self.watching = Watching()
        events = EventDesk(
            "c", config.rules, LABELS, model_digest=ONE, config_digest=CONFIG, clock=self.clock
        )
        self.desk = CameraDesk(
            "c",
            config,
            open_source("c", config.source, base=Path("/"), clock=self.clock),
            events,
            sight=Sight(0.5, (ONE, SMALL), (LABELS, LABELS)),
            sinks=[self.watching],
            observer=self.watching,
            times=StageTimes(),
            clock=self.clock,
        )
        self._sequence = -1

    def see(
        self, *labels: int, lineup: int = 0, variant: int = 0, score: float = 0.9, frames: int = 1
    ) -> Tracks:
        """So many frames with one object for each label, side by side; the tracks of the last one."""
        for _ in range(frames):
            self.clock.pass_s(0.1)
            self._sequence += 1
            now_ns = self.clock.now_ns
            frame = Frame(np.zeros((100, 100, 3), np.uint8), "c", 0, self._sequence, now_ns, now_ns)
            boxes = np.array([(20 * i, 0, 20 * i + 10, 30) for i in range(len(labels))], np.float32)
            seen = Detections(
                boxes.reshape(-1, 4), np.full(len(labels), score, np.float32), np.array(labels, np.int64)
            )
            self.desk.take(Evaluated(frame, seen, "m", variant, lineup))
        tracks = self.watching.tracks[-1]
        assert tracks is not None
        return tracks


def test_tracks_start_anew_under_a_new_lineup() -> None:
    desk = Desk()
    desk.see(0, frames=3)
    assert desk.see(0, 0, frames=3).track_id.tolist() == [1, 2]
    desk.desk.expect(1, Sight(0.5, (TWO,), (LABELS,), tracks_go_on=False))
    assert desk.see(0, 0, lineup=1).track_id.tolist() == [], "not yet confirmed"
    assert desk.see(0, lineup=1, frames=2).track_id.tolist() == [1]


def test_tracks_go_on_where_the_release_says_so() -> None:
    desk = Desk()
    desk.see(0, frames=3)
    assert desk.see(0, 0, frames=3).track_id.tolist() == [1, 2]
    desk.desk.expect(1, Sight(0.5, (TWO,), (LABELS,), tracks_go_on=True))
    assert desk.see(0, 0, lineup=1).track_id.tolist() == [1, 2]


@pytest.mark.parametrize("tracks_go_on", [True, False])
def test_the_new_models_score_counts_from_its_first_frame(tracks_go_on: bool) -> None:
    desk = Desk()
    assert len(desk.see(0, score=0.55, frames=3)) == 0, "a track begins a tenth above the score"
    desk.desk.expect(1, Sight(0.4, (TWO,), (LABELS,), tracks_go_on=tracks_go_on))
    assert len(desk.see(0, score=0.55, lineup=1, frames=3)) == 1


@pytest.mark.parametrize("tracks_go_on", [True, False])
def test_detections_are_read_by_the_labels_of_the_model_that_made_them(tracks_go_on: bool) -> None:
    desk = Desk()
    desk.see(0, frames=3)
    desk.desk.expect(1, Sight(0.5, (TWO,), (("car", "person", "dog"),), tracks_go_on=tracks_go_on))
    tracks = desk.see(1, 2, lineup=1, frames=3)
    names = desk.desk.events.labels.names
    assert [names[label] for label in tracks.label] == ["person", "dog"]
    assert names == ["person", "car", "dog"]


def test_each_event_names_the_model_that_made_it_smaller_ones_too() -> None:
    desk = Desk()
    desk.see(0, frames=3)
    desk.see(variant=1, frames=10)
    desk.desk.expect(1, Sight(0.5, (TWO, SMALL), (LABELS, LABELS)))
    desk.see(0, lineup=1, frames=3)
    desk.see(lineup=1, variant=1, frames=10)
    desk.see(0, lineup=1, variant=1, frames=3)
    made = [(event.state.value, event.model) for event in desk.watching.events]
    assert [pair for pair in made if pair[0] != "updated"] == [
        ("started", ONE),
        ("ended", SMALL),
        ("started", TWO),
        ("ended", SMALL),
        ("started", SMALL),
    ]


def test_a_lineup_that_no_frame_came_from_is_passed_over() -> None:
    desk = Desk()
    desk.see(0, frames=3)
    desk.desk.expect(1, Sight(0.5, (SMALL,), (LABELS,)))
    desk.desk.expect(2, Sight(0.5, (TWO,), (LABELS,)))
    desk.see(0, lineup=2, frames=3)
    desk.see(lineup=2, frames=10)
    assert desk.watching.events[-1].model == TWO


def test_a_model_that_never_answers_is_named_by_what_it_says_of_the_camera() -> None:
    desk = Desk()
    desk.see(0, frames=3)
    desk.desk.expect(1, Sight(0.5, (TWO,), (LABELS,)))
    frame = Frame(np.zeros((100, 100, 3), np.uint8), "c", 0, 3, desk.clock.now_ns, desk.clock.now_ns)
    (fault,) = desk.desk.take(NotEvaluated(frame, Unseen.MODEL_FAULT, "no numbers", "m", lineup=1))
    assert (fault.rule, fault.model) == ("@camera", TWO)


def test_a_camera_that_shows_nothing_keeps_a_few_lineups_only() -> None:
    desk = Desk()
    for lineup in range(1, 300):
        desk.desk.expect(lineup, Sight(0.5, (TWO,), (LABELS,)))
    assert len(desk.desk._sights) <= 8
    desk.see(0, lineup=299, frames=3)
    assert desk.watching.events[-1].model == TWO
