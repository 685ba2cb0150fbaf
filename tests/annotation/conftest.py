"""Frames, tracks and events to draw."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from edge_runtime.perception.detections import Tracks
from edge_runtime.protocol import EventRecord, EventTime
from edge_runtime.sources.frame import Frame

MakeFrame = Callable[..., Frame]
MakeTracks = Callable[..., Tracks]
MakeEvent = Callable[..., EventRecord]


@pytest.fixture
def make_frame() -> MakeFrame:
    def make(
        height: int = 240, width: int = 320, media_s: float = 0.0, value: int = 128, **other: Any
    ) -> Frame:
        image = np.full((height, width, 3), value, np.uint8)
        fields: dict[str, Any] = {"epoch": 0, "sequence": round(media_s * 10), "capture_ns": 0, **other}
        return Frame(image, "dock", media_ns=round(media_s * 1e9), **fields)

    return make


@pytest.fixture
def make_tracks() -> MakeTracks:
    def make(*boxes: tuple[float, float, float, float], first: int = 1, seen: bool = True) -> Tracks:
        count = len(boxes)
        return Tracks(
            np.arange(first, first + count, dtype=np.int64),
            np.array(boxes, np.float32).reshape(-1, 4),
            np.full(count, 0.9, np.float32),
            np.zeros(count, np.int64),
            np.full(count, seen),
        )

    return make


@pytest.fixture
def make_event() -> MakeEvent:
    def make(**fields: Any) -> EventRecord:
        at = EventTime(
            monotonic_ns=0,
            media_s=fields.pop("media_s", 1.0),
            wall="1970-01-01T00:00:00.000Z",
            synced=False,
            boot_id="b",
        )
        defaults: dict[str, Any] = {
            "id": "e1",
            "revision": 1,
            "state": "started",
            "kind": "zone",
            "rule": "bay",
            "camera": "dock",
            "epoch": 0,
            "sequence": 0,
            "severity": "warning",
            "data_class": "internal",
            "started": at,
            "at": at,
            "deadline_ms": 1000.0,
            "latency_ms": 1.0,
            "late": False,
            "ttl_s": 60.0,
            "config": "sha256:" + "0" * 64,
        }
        return EventRecord(**{**defaults, **fields})

    return make
