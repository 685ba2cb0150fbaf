from pathlib import Path

import pytest
from pydantic import TypeAdapter

from edge_runtime.clock import SystemClock
from edge_runtime.config.source import SourceConfig
from edge_runtime.sources import open_source
from edge_runtime.sources.factory import plan_of

CLIP = [{"path": "x"}]
KINDS: list[tuple[dict[str, object], bool, bool, bool]] = [
    # configuration, live, endless, has the limits of a live source
    ({"kind": "file", "path": "x"}, False, False, False),
    ({"kind": "file", "path": "x", "pacing": "real_time"}, False, False, False),
    ({"kind": "file", "path": "x", "pacing": "camera"}, True, False, False),
    ({"kind": "images", "path": "x"}, False, False, False),
    ({"kind": "playlist", "clips": CLIP, "width": 64, "height": 48}, False, False, False),
    ({"kind": "rtsp", "url": "rtsp://cam/x"}, True, True, True),
    ({"kind": "http", "url": "http://cam/x"}, True, True, True),
    ({"kind": "v4l2"}, True, True, True),
    ({"kind": "gstreamer", "pipeline": "videotestsrc"}, True, True, True),
    ({"kind": "synthetic"}, True, False, True),
    ({"kind": "synthetic", "pacing": "every_frame"}, False, False, False),
]


def parse(fields: dict[str, object]) -> SourceConfig:
    config: SourceConfig = TypeAdapter(SourceConfig).validate_python(fields)
    return config


@pytest.mark.parametrize(("fields", "live", "endless", "limited"), KINDS)
def test_every_kind_has_its_plan(fields: dict[str, object], live: bool, endless: bool, limited: bool) -> None:
    config = parse(fields)
    plan = plan_of(config, Path(), SystemClock())
    assert (plan.endless, plan.limits is not None) == (endless, limited)
    runner = open_source("cam", config, base=Path(), clock=SystemClock())
    assert runner.live is live
    assert runner.name == "cam"
    assert runner.stop()
    assert runner.finished


def test_times_are_handed_on() -> None:
    config = parse(
        {
            "kind": "rtsp",
            "url": "rtsp://cam/x",
            "max_age": 0.25,
            "stall_after": 3,
            "frozen_after": 0,
            "open_timeout": 7,
            "backoff_first": 0.1,
            "backoff_max": 9,
            "give_up_after": 60,
        }
    )
    limits = plan_of(config, Path(), SystemClock()).limits
    assert limits is not None
    assert (limits.max_age_ns, limits.stall_after_ns, limits.open_ns) == (250_000_000, 3 * 10**9, 7 * 10**9)
    assert limits.frozen_after_ns is None, "0 turns the check off"
    assert (limits.backoff_first_s, limits.backoff_max_s, limits.give_up_after_ns) == (0.1, 9, 60 * 10**9)


def test_looping_is_for_files() -> None:
    plan = plan_of(
        parse({"kind": "file", "path": "x", "loop": True, "pacing": "camera"}), Path(), SystemClock()
    )
    assert (plan.loop, plan.pacing, plan.endless) == (True, "camera", False)
