"""Tables of plain text: whole in a pipe, and within the width of a terminal.

On a terminal what must be whole stays whole, ids lose their middle, and other texts go on in the next line. A
shortened id can still be told from the others of its column, and `fleet_server.cli.names` takes it back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells, set_cell_size

from fleet_server.cli.output import CUT

GAP = "  "
NARROWEST_CELL = 6


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        right: numbers stand on the right.
        whole: neither shortened nor wrapped, however narrow the terminal.
        is_id: loses its middle where there is no room; others are wrapped.
    """

    name: str
    right: bool = False
    whole: bool = False
    is_id: bool = False

    @classmethod
    def parse(cls, text: str) -> "Column":
        """`#` in front is a number; at the end `!` is always whole, `~` is an id."""
        name = text.strip("#!~")
        return cls(name, right=text.startswith("#"), whole=text.endswith("!"), is_id=text.endswith("~"))


def lay_out(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """Heading, rule and rows.

    Args:
        columns: one for each cell of a row.
        rows: cells without control characters.
        width: of the terminal, in cells; a letter of some scripts takes two. None where there is none: then every
            value is whole and each row is one line.
    """
    widths = _widths(columns, rows, width)
    heading = _lines(columns, [column.name for column in columns], widths)
    rule = GAP.join("─" * cells for cells in widths)
    return [*heading, rule, *(line for row in rows for line in _lines(columns, row, widths))]


def shorten(text: str, width: int) -> str:
    """A text without its middle, `width` cells wide at the most: its ends are what tells ids apart."""
    if cell_len(text) <= width:
        return text
    head = width // 2
    tail = width - head - cell_len(CUT)
    start = set_cell_size(text, head).rstrip()
    end = len(text)
    while end > 0 and cell_len(text[end - 1 :]) <= tail:
        end -= 1
    return start + CUT + text[end:]


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None) -> list[int]:
    cells = [
        max(cell_len(column.name), *(cell_len(row[index]) for row in rows), 1)
        if rows
        else cell_len(column.name)
        for index, column in enumerate(columns)
    ]
    if width is None:
        return cells
    least = [_least(column, [row[index] for row in rows]) for index, column in enumerate(columns)]
    excess = sum(cells) + len(GAP) * (len(columns) - 1) - width
    while excess > 0:
        giving = [
            index
            for index, column in enumerate(columns)
            if not column.whole and cells[index] > max(least[index], 1)
        ]
        if not giving:
            break
        widest = max(giving, key=lambda index: cells[index])
        cells[widest] -= 1
        excess -= 1
    return cells


def _least(column: Column, cells: Sequence[str]) -> int:
    """The narrowest that a column may become: ids must still be told apart."""
    if not column.is_id:
        return NARROWEST_CELL
    different = set(cells)
    heading = cell_len(column.name)
    widest = max((cell_len(cell) for cell in different), default=0)
    for width in range(max(NARROWEST_CELL, heading), widest):
        if len({shorten(cell, width) for cell in different}) == len(different):
            return width
    return max(heading, widest)


def _lines(columns: Sequence[Column], row: Sequence[str], widths: Sequence[int]) -> list[str]:
    parts = [
        [shorten(cell, width)] if column.is_id else _wrapped(cell, width)
        for column, cell, width in zip(columns, row, widths, strict=True)
    ]
    lines = []
    for number in range(max(len(part) for part in parts)):
        shown = []
        for column, part, width in zip(columns, parts, widths, strict=True):
            cell = part[number] if number < len(part) else ""
            blank = " " * (width - cell_len(cell))
            shown.append(blank + cell if column.right else cell + blank)
        lines.append(GAP.join(shown).rstrip())
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    """A text in lines of `width` cells: at blanks where they come in time, else wherever the line ends."""
    if cell_len(text) <= width:
        return [text]
    lines = [""]
    for word in text.split(" "):
        for piece in chop_cells(word, width) or [""]:
            joined = f"{lines[-1]} {piece}" if lines[-1] else piece
            if cell_len(joined) <= width and not (lines[-1] and cell_len(word) > width):
                lines[-1] = joined
            else:
                lines.append(piece)
    return [line for line in lines if line] or [""]
