"""One picture of a run: bounded, captioned, written whole or not at all."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.annotation import ContactSheet
from edge_runtime.errors import AnnotationError

SECOND = 1_000_000_000
RED = (10, 20, 200)


def picture(value: int, height: int = 60, width: int = 80) -> np.ndarray:
    return np.full((height, width, 3), value, np.uint8)


def test_the_sheet_has_a_cell_for_each_tile(tmp_path: Path) -> None:
    sheet = ContactSheet(every_s=1.0, columns=3, tile_width=80)
    for index in range(7):
        sheet.add_periodic(picture(100 + index), f"{index} s", index * SECOND)
    path = tmp_path / "deep" / "sheet.png"
    sheet.save(path, "seven tiles")
    image = cv2.imread(str(path))
    assert image is not None
    assert image.shape[1] >= 3 * 80
    for index in range(7):
        assert (image == 100 + index).all(axis=-1).sum() >= 60 * 80 * 0.99
    assert (image == 107).all(axis=-1).sum() < 100, "a shade of some letters only"
    assert list(tmp_path.glob("**/*.part")) == []


def test_event_tiles_carry_the_colour_of_their_severity() -> None:
    sheet = ContactSheet(tile_width=80)
    sheet.add_event(picture(100), "bay enter", RED)
    image = sheet.render("one event")
    assert (image == np.array(RED, np.uint8)).all(axis=-1).sum() > 80


def test_periodic_tiles_are_wanted_when_their_time_has_come() -> None:
    sheet = ContactSheet(every_s=2.0)
    taken = []
    for tenth in range(100):
        media_ns = tenth * SECOND // 10
        if sheet.wants(media_ns):
            sheet.add_periodic(picture(1), "", media_ns)
            taken.append(tenth)
    assert taken == [0, 20, 40, 60, 80]
    assert sheet.wants(0, epoch=1), "a new epoch starts with a tile"


def test_a_gap_in_time_gives_one_tile_not_many() -> None:
    sheet = ContactSheet(every_s=1.0)
    sheet.add_periodic(picture(1), "", 0)
    sheet.add_periodic(picture(1), "", 10 * SECOND + 1)
    assert not sheet.wants(10 * SECOND + 2)
    assert sheet.wants(11 * SECOND)


def test_no_interval_means_events_only() -> None:
    assert not ContactSheet(every_s=0).wants(0)


def test_a_long_run_thins_its_periodic_tiles_and_keeps_its_events() -> None:
    sheet = ContactSheet(every_s=1.0, max_tiles=10, tile_width=80)
    for second in range(200):
        if sheet.wants(second * SECOND):
            sheet.add_periodic(picture(50), f"{second}", second * SECOND)
        if second in (5, 150):
            sheet.add_event(picture(201 + second // 100), "event", RED)
    assert len(sheet) <= 10
    assert sheet.left_out > 0
    image = sheet.render("long")
    assert (image == 201).all(axis=-1).any()
    assert (image == 202).all(axis=-1).any()


@settings(max_examples=25)
@given(st.lists(st.booleans(), max_size=120), st.integers(2, 12))
def test_memory_is_bounded_whatever_comes(kinds: list[bool], max_tiles: int) -> None:
    sheet = ContactSheet(every_s=1.0, max_tiles=max_tiles, tile_width=16)
    for index, is_event in enumerate(kinds):
        if is_event:
            sheet.add_event(picture(1, 8, 8), "e", RED)
        else:
            sheet.add_periodic(picture(1, 8, 8), "p", index * SECOND)
        assert len(sheet) <= max_tiles
    assert len(sheet) + sheet.left_out == len(kinds)


def test_tiles_of_other_sizes_are_fitted_and_an_empty_sheet_is_a_heading() -> None:
    sheet = ContactSheet(tile_width=80)
    empty = sheet.render("nothing happened")
    assert empty.shape[0] < 80
    sheet.add_event(picture(100), "", RED)
    sheet.add_event(picture(100, 200, 50), "", RED)
    assert sheet.render("two").shape[0] > 60


def test_a_sheet_that_cannot_be_written_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(AnnotationError, match="the contact sheet cannot be written"):
        ContactSheet().save(tmp_path / "file" / "sheet.png", "t")
    (tmp_path / "sheet.png").mkdir()
    with pytest.raises(AnnotationError, match="the contact sheet cannot be written"):
        ContactSheet().save(tmp_path / "sheet.png", "t")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "sheet.png"]
