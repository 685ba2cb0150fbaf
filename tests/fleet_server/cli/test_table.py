"""Tables that fit."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from fleet_server.cli.table import Column, lay_out

COLUMNS = [Column.parse(name) for name in ("#no!", "device", "camera", "state!")]
CELL = st.text(
    st.characters(blacklist_categories=("Cc", "Cs", "Mn", "Me", "Cf", "Zl", "Zp", "Cn", "Co")), max_size=60
)


def test_what_must_be_whole_stays_whole_and_the_longest_gives_way() -> None:
    rows = [["1", "dock-1", "c" * 60, "active"], ["12345", "d" * 20, "cam", "revoked"]]
    assert lay_out(COLUMNS, rows, 50) == [
        "   no  device            camera            state",
        "─────  ────────────────  ────────────────  ───────",
        "    1  dock-1            ccccccccccccccc…  active",
        "12345  ddddddddddddddd…  cam               revoked",
    ]


def test_a_table_that_fits_is_as_wide_as_it_needs() -> None:
    assert lay_out(COLUMNS, [["1", "d", "c", "s"]], 80)[2] == " 1  d       c       s"


@given(rows=st.lists(st.tuples(st.just("7"), CELL, CELL, st.sampled_from(["active", "pending"])), max_size=5))
def test_no_line_is_wider_than_the_terminal(rows: list[tuple[str, ...]]) -> None:
    assert all(cell_len(line) <= 60 for line in lay_out(COLUMNS, rows, 60))
