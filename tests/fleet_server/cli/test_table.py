"""Tables that fit a terminal, and are whole where there is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from fleet_server.cli.names import is_cut_of
from fleet_server.cli.output import CUT
from fleet_server.cli.table import Column, lay_out, shorten

COLUMNS = [Column.parse(name) for name in ("#no!", "device~", "labels", "state!")]
CELL = st.text(
    st.characters(blacklist_categories=("Cc", "Cs", "Mn", "Me", "Cf", "Zl", "Zp", "Cn", "Co")), max_size=60
)


def test_on_a_terminal_ids_lose_their_middle_and_other_texts_go_on_in_the_next_line() -> None:
    rows = [
        ["1", "dock-1", "site=north zone=inner-yard", "active"],
        ["12345", "loading-bay-camera-17", "-", "revoked"],
    ]
    assert lay_out(COLUMNS, rows, 50) == [
        "   no  device            labels            state",
        "─────  ────────────────  ────────────────  ───────",
        "    1  dock-1            site=north        active",
        "                         zone=inner-yard",
        "12345  loading-…mera-17  -                 revoked",
    ]


def test_in_a_pipe_every_value_is_whole_and_on_one_line() -> None:
    rows = [["1", "d" * 100, "site=" + "n" * 60, "active"], ["2", "e", "-", "active"]]
    lines = lay_out(COLUMNS, rows, None)
    assert len(lines) == 4
    assert lines[2].split() == rows[0]
    assert lines[2].index("active") == lines[3].index("active")


def test_ids_that_would_look_alike_are_left_as_long_as_they_must_be() -> None:
    names = ["loading-bay-camera-north-east-17", "loading-bay-camera-south-east-17"]
    lines = lay_out(COLUMNS, [["1", name, "-", "active"] for name in names], 40)
    assert len({line.split()[1] for line in lines[2:]}) == 2


def test_a_heading_is_never_shortened() -> None:
    columns = [Column.parse(name) for name in ("device~", "state!")]
    assert lay_out(columns, [["demo", "x" * 30]], 20)[0] == "device  state"


def test_a_table_that_fits_is_as_wide_as_it_needs() -> None:
    assert lay_out(COLUMNS, [["1", "d", "c", "s"]], 80)[2] == " 1  d       c       s"


@given(rows=st.lists(st.tuples(st.just("7"), CELL, CELL, st.sampled_from(["active", "pending"])), max_size=5))
def test_no_line_is_wider_than_the_terminal_and_no_text_is_lost(rows: list[tuple[str, ...]]) -> None:
    columns = [Column.parse(name) for name in ("#no!", "camera", "labels", "state!")]
    lines = lay_out(columns, rows, 60)
    assert all(cell_len(line) <= 60 for line in lines)
    shown = sorted("".join(lines[2:]).replace(" ", ""))
    assert shown == sorted("".join("".join(row) for row in rows).replace(" ", ""))


@given(text=CELL, width=st.integers(min_value=6, max_value=40))
def test_a_shortened_id_fits_and_is_taken_back(text: str, width: int) -> None:
    short = shorten(text, width)
    assert cell_len(short) <= width or short == text
    if short != text:
        head, tail = short.split(CUT, 1) if short.count(CUT) == 1 else ("", "")
        assert is_cut_of(text, head, tail)


@pytest.mark.parametrize(
    ("text", "head", "tail", "is_cut"),
    [("dock-17", "do", "17", True), ("dock-17", "dock", "-17", False), ("dock-17", "x", "17", False)],
)
def test_a_cut_leaves_something_out(text: str, head: str, tail: str, *, is_cut: bool) -> None:
    assert is_cut_of(text, head, tail) is is_cut
