"""Tables of plain text that fit a width: what must be whole stays whole, the longest of the others give way."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

GAP = "  "
NARROWEST_CELL = 6


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        right: numbers stand on the right.
        whole: never cut, however narrow the terminal.
    """

    name: str
    right: bool = False
    whole: bool = False

    @classmethod
    def parse(cls, text: str) -> "Column":
        """`#` in front is a number, `!` at the end is never cut."""
        return cls(text.strip("#!"), right=text.startswith("#"), whole=text.endswith("!"))


def lay_out(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Heading, rule and rows, each at most `width` cells wide unless the whole columns alone are wider.

    Args:
        columns: one for each cell of a row.
        rows: cells without control characters.
        width: of the terminal, in cells; a letter of some scripts takes two.
    """
    widths = _widths(columns, rows, width)
    heading = _line(columns, [column.name for column in columns], widths)
    rule = GAP.join("─" * cells for cells in widths)
    return [heading, rule, *(_line(columns, row, widths) for row in rows)]


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    cells = [
        max(cell_len(column.name), *(cell_len(row[index]) for row in rows), 1)
        if rows
        else cell_len(column.name)
        for index, column in enumerate(columns)
    ]
    excess = sum(cells) + len(GAP) * (len(columns) - 1) - width
    while excess > 0:
        giving = [
            index
            for index, column in enumerate(columns)
            if not column.whole and cells[index] > NARROWEST_CELL
        ]
        if not giving:
            break
        widest = max(giving, key=lambda index: cells[index])
        cells[widest] -= 1
        excess -= 1
    return cells


def _line(columns: Sequence[Column], row: Sequence[str], widths: Sequence[int]) -> str:
    shown = []
    for column, cell, width in zip(columns, row, widths, strict=True):
        length = cell_len(cell)
        if length > width:
            shown.append(set_cell_size(cell, width - 1) + "…")
        else:
            blank = " " * (width - length)
            shown.append(blank + cell if column.right else cell + blank)
    return GAP.join(shown).rstrip()
