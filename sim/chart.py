"""Line charts as SVG text, for the few pictures of the documentation: no plotting library is needed for them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 860, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 18, 34, 40
_TICKS = 6


@dataclass(frozen=True, slots=True)
class Line:
    """One curve.

    Attributes:
        label: for the legend; empty leaves it out of it.
        points: (x, y) in order of x.
        colour: of SVG.
        dashed: for limits and deadlines.
    """

    label: str
    points: Sequence[tuple[float, float]]
    colour: str
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart: a title, names of the axes with units, and its curves.

    Attributes:
        low, high: of the y axis; None is what the curves need.
    """

    title: str
    x_name: str
    y_name: str
    lines: Sequence[Line]
    low: float | None = None
    high: float | None = None


def picture(panels: Sequence[Panel]) -> str:
    """The panels below each other, as one SVG document."""
    height = HEIGHT * len(panels)
    body = "".join(_panel(panel, HEIGHT * index) for index, panel in enumerate(panels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>\n{body}</svg>\n'
    )


def _panel(panel: Panel, offset: int) -> str:
    xs = [x for line in panel.lines for x, _ in line.points]
    ys = [y for line in panel.lines for _, y in line.points]
    x_ticks, y_ticks = _ticks(min(xs), max(xs)), _ticks(_or(panel.low, min(ys)), _or(panel.high, max(ys)))
    x_span, y_span = (min(xs), max(xs)), (y_ticks[0], y_ticks[-1])

    def across(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (x - x_span[0]) / ((x_span[1] - x_span[0]) or 1)

    def up(y: float) -> float:
        share = (y - y_span[0]) / ((y_span[1] - y_span[0]) or 1)
        return offset + HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    parts = [_text(LEFT, offset + 20, panel.title, weight="bold")]
    for y in y_ticks:
        parts.append(_segment(LEFT, up(y), WIDTH - RIGHT, up(y), "#ddd"))
        parts.append(_text(LEFT - 6, up(y) + 4, f"{y:g}", anchor="end"))
    base = offset + HEIGHT - BOTTOM
    for x in (tick for tick in x_ticks if x_span[0] <= tick <= x_span[1]):
        parts.append(_segment(across(x), base, across(x), base + 4, "#555"))
        parts.append(_text(across(x), base + 17, f"{x:g}", anchor="middle"))
    parts.append(_segment(LEFT, base, WIDTH - RIGHT, base, "#555"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, base + 33, panel.x_name, anchor="middle"))
    middle = offset + TOP + (HEIGHT - TOP - BOTTOM) / 2
    parts.append(
        f'<text transform="translate(14,{middle:.1f}) rotate(-90)" text-anchor="middle">'
        f"{escape(panel.y_name)}</text>\n"
    )
    legend = WIDTH - RIGHT
    for line in reversed(panel.lines):
        points = " ".join(
            f"{across(x):.1f},{up(min(max(y, y_span[0]), y_span[1])):.1f}" for x, y in line.points
        )
        dash = ' stroke-dasharray="6 4"' if line.dashed else ""
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{line.colour}" stroke-width="1.6"{dash}/>\n'
        )
        if line.label:
            parts.append(_text(legend, offset + 20, line.label, anchor="end", colour=line.colour))
            legend -= 7 * len(line.label) + 18
    return "".join(parts)


def _or(given: float | None, found: float) -> float:
    return found if given is None else given


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers that cover the span."""
    raw = ((high - low) or 1.0) / _TICKS
    size = 10 ** math.floor(math.log10(raw))
    step = size * next(factor for factor in (1, 2, 5, 10) if factor * size >= raw * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [round(step * index, 9) for index in range(first, max(last, first + 1) + 1)]


def _segment(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>\n'


def _text(
    x: float, y: float, words: str, *, anchor: str = "start", colour: str = "#222", weight: str = "normal"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-weight="{weight}">'
        f"{escape(words)}</text>\n"
    )
