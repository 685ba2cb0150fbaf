"""The diagrams of the concepts, as SVG files beside the other pictures: boxes, arrows and words on a grid.

    python -m docs.diagrams           writes them
    python -m docs.diagrams --check   leaves with 1 if one of them is stale

They take the colours of the reader's own light or dark preference, as the pages do, and fetch nothing.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

PICTURES = Path(__file__).resolve().parent / "img"
UNIT = 10
"""Pixels of one step of the grid, on which all coordinates below are."""

_RULES = """\
text{{fill:{ink};font:13px system-ui,sans-serif}}.name{{font-weight:600}}.small{{font-size:11px;fill:{soft}}}
.box{{fill:{box};stroke:{line}}}.own{{fill:{own};stroke:{own_line}}}.far{{fill:{far};stroke:{far_line}}}
.room{{fill:none;stroke:{line};stroke-dasharray:4 4}}.way{{fill:none;stroke:{line};stroke-width:1.6}}
.tip{{fill:{line}}}"""
_LIGHT = {
    "ink": "#263238",
    "soft": "#546e7a",
    "line": "#78909c",
    "box": "#eceff1",
    "own": "#e0f2f1",
    "own_line": "#00897b",
    "far": "#fff8e1",
    "far_line": "#b28704",
}
_DARK = {
    "ink": "#e6eaed",
    "soft": "#b0bec5",
    "line": "#90a4ae",
    "box": "#37474f",
    "own": "#1f4a46",
    "own_line": "#4db6ac",
    "far": "#4a4022",
    "far_line": "#e0b84c",
}
_STYLE = "\n".join(
    (_RULES.format(**_LIGHT), "@media (prefers-color-scheme:dark){", _RULES.format(**_DARK), "}")
)


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with a name and lines below it.

    Attributes:
        x, y, w, h: on the grid.
        kind: `box`, `own` (holds what a promise rests on), `far` (elsewhere), `room` (around others).
    """

    x: float
    y: float
    w: float
    h: float
    name: str
    lines: Sequence[str] = ()
    kind: str = "box"

    def drawn(self) -> str:
        """Itself as SVG."""
        x, y, w, h = (value * UNIT for value in (self.x, self.y, self.w, self.h))
        parts = [f'<rect class="{self.kind}" x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="6"/>']
        if self.kind == "room":
            parts.append(_text(x + 10, y + 17, self.name, "small", "start"))
            return "\n".join(parts)
        top = y + h / 2 + 4.5 - 7.5 * len(self.lines)
        parts.append(_text(x + w / 2, top, self.name, "name"))
        parts += [
            _text(x + w / 2, top + 15 * number, line, "small") for number, line in enumerate(self.lines, 1)
        ]
        return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class Way:
    """An arrow through points of the grid, with words at a place beside it."""

    points: Sequence[tuple[float, float]]
    words: str = ""
    at: tuple[float, float] = (0, 0)
    anchor: str = "middle"
    both: bool = False

    def drawn(self) -> str:
        """Itself as SVG."""
        places = " ".join(f"{x * UNIT:g},{y * UNIT:g}" for x, y in self.points)
        start = ' marker-start="url(#tip)"' if self.both else ""
        line = f'<polyline class="way" points="{places}" marker-end="url(#tip)"{start}/>'
        if not self.words:
            return line
        return f"{line}\n{_text(self.at[0] * UNIT, self.at[1] * UNIT, self.words, 'small', self.anchor)}"


def _text(x: float, y: float, text: str, kind: str, anchor: str = "middle") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def picture(width: float, height: float, title: str, parts: Sequence[Box | Way]) -> str:
    """One SVG document.

    Args:
        width, height: on the grid.
        title: for who does not see it.
        parts: later ones above earlier ones.
    """
    body = "\n".join(part.drawn() for part in parts)
    size = f"{width * UNIT:g} {height * UNIT:g}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" role="img" aria-label="{escape(title)}">\n'
        f"<style>{_STYLE}</style>\n"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>\n'
        f"{body}\n</svg>\n"
    )


def road() -> str:
    """From a camera to a row at the server, and back."""
    row, low = 4, 15
    return picture(
        96,
        24,
        "The road of an event: from a camera to a row at the server, and a receipt back",
        [
            Box(1, 1, 94, 9, "device", kind="room"),
            Box(1, 12, 94, 11, "server", kind="room"),
            Box(3, row, 10, 4.5, "camera", ["frames"], "far"),
            Box(17, row, 13, 4.5, "perception", ["detections, tracks"]),
            Box(34, row, 12, 4.5, "rules", ["events, deadlines"]),
            Box(50, row, 12, 4.5, "gate", ["send, hold, keep"], "own"),
            Box(66, row, 12, 4.5, "outbox", ["on disk, counted"], "own"),
            Box(82, row, 11, 4.5, "uplink", ["MQTT, HTTPS"]),
            Box(82, low, 11, 4.5, "broker", ["TLS both ways"], "far"),
            Box(66, low, 12, 4.5, "ingest", ["validates, dedupes"]),
            Box(50, low, 12, 4.5, "storage", ["committed"], "own"),
            Box(30, low, 16, 4.5, "API", ["fleet, health, audit"]),
            Way([(13, 6.2), (17, 6.2)]),
            Way([(30, 6.2), (34, 6.2)]),
            Way([(46, 6.2), (50, 6.2)]),
            Way([(62, 6.2), (66, 6.2)]),
            Way([(78, 6.2), (82, 6.2)]),
            Way([(87.5, 8.5), (87.5, 15)], "events", (86.8, 11.4), "end"),
            Way([(82, 17.2), (78, 17.2)]),
            Way([(66, 17.2), (62, 17.2)]),
            Way([(50, 17.2), (46, 17.2)]),
            Way([(72, 15), (72, 8.5)], "receipt: what is committed", (71.2, 11.4), "end"),
        ],
    )


def processes() -> str:
    """The processes of one device, and who watches whom."""
    return picture(
        96,
        34,
        "The guard starts and watches the workers, and holds the permission to move",
        [
            Box(1, 1, 70, 32, "edge-runtime run: one device", kind="room"),
            Box(25, 3.5, 20, 5.5, "guard", ["state machine, latch on disk"], "own"),
            Box(3, 15, 12, 5.5, "perception", ["cameras, models"]),
            Box(17, 15, 11, 5.5, "outbox", ["the queue"]),
            Box(30, 15, 11, 5.5, "uplink", ["the server"]),
            Box(43, 15, 11, 5.5, "monitor", ["heat, disk, pose"]),
            Box(56, 15, 12, 5.5, "updates", ["signed releases"]),
            Box(25, 25.5, 20, 5.5, "motion gate", ["passes bounded commands"], "own"),
            Box(77, 25.5, 17, 5.5, "drive", ["stops when it hears nothing"], "far"),
            Box(77, 15, 17, 5.5, "planner", ["proposes commands"], "far"),
            Box(77, 3.5, 17, 5.5, "person", ["acknowledges, arms"], "far"),
            *(Way([(x, 15), (x, 12), (35, 12), (35, 9)]) for x in (9, 22.5, 48.5, 62)),
            Way([(35.5, 15), (35.5, 9)], "beats after finished work", (37, 11.2), "start"),
            Way(
                [(25, 6.2), (2, 6.2), (2, 28.2), (25, 28.2)],
                "lease of 40 ms, renewed every 10",
                (4, 27.4),
                "start",
            ),
            Way([(77, 6.2), (45, 6.2)], "signed record", (61, 5.4)),
            Way([(85.5, 20.5), (85.5, 23), (40, 23), (40, 25.5)], "proposals", (62, 22.2)),
            Way([(45, 28.2), (77, 28.2)], "commands, then the safe value once", (61, 27.4)),
        ],
    )


def states() -> str:
    """The states of the permission to move."""
    return picture(
        96,
        27,
        "INIT, STANDBY, NOMINAL, DEGRADED, STOPPED; SAFE and LOCKOUT are latched and left by people alone",
        [
            Box(1, 3, 13, 5, "INIT", ["nothing moves"]),
            Box(22, 3, 13, 5, "STANDBY", ["well, not armed"]),
            Box(45, 3, 14, 5, "NOMINAL", ["may move"], "own"),
            Box(79, 3, 14, 5, "DEGRADED", ["lesser limits"], "own"),
            Box(79, 13, 14, 5, "STOPPED", ["returns by itself"]),
            Box(45, 20, 14, 5, "SAFE", ["latched"], "far"),
            Box(22, 20, 13, 5, "RECOVERY", ["nothing moves"]),
            Box(79, 20.5, 14, 5, "LOCKOUT", ["latched"], "far"),
            Way([(14, 5.5), (22, 5.5)], "well", (18, 4.9)),
            Way([(35, 5.5), (45, 5.5)], "arm", (40, 4.9)),
            Way([(59, 5.5), (79, 5.5)], "a lesser condition", (69, 4.9), both=True),
            Way([(57, 8), (57, 15.5), (79, 15.5)], "camera dark, late", (68, 14.9), both=True),
            Way([(49, 8), (49, 20)], "worker hung, e-stop, integrity", (48.2, 14.2), "end"),
            Way([(83, 18), (83, 19.2), (55, 19.2), (55, 20)], "lasts too long", (69, 18.6)),
            Way([(59, 23.5), (79, 23.5)], "three latches in ten minutes", (69, 24.9)),
            Way([(45, 22.5), (35, 22.5)], "signed ack", (40, 21.9)),
            Way([(28.5, 20), (28.5, 8)], "well", (27.7, 14.2), "end"),
        ],
    )


def releases() -> str:
    """How a signed release gets into use, and back."""
    return picture(
        96,
        26,
        "People sign a release offline, the server assigns it in stages, the device checks both and tries it",
        [
            Box(1, 1, 27, 24, "people, offline", kind="room"),
            Box(31, 1, 27, 24, "server", kind="room"),
            Box(61, 1, 34, 24, "device", kind="room"),
            Box(4, 4, 21, 5, "builder", ["packs and signs"], "own"),
            Box(4, 13, 21, 5, "approver", ["looks, and signs too"], "own"),
            Box(34, 4, 21, 5, "publish", ["verifies all of it, golden vectors"]),
            Box(34, 10.5, 21, 5, "rollout", ["stages, verdicts, windows"]),
            Box(34, 17, 21, 5, "director", ["signs who gets what"]),
            Box(66, 4, 26, 4.6, "trust", ["both signatures, newer, not expired"], "own"),
            Box(66, 10.4, 26, 4.6, "beside the one in use", ["golden vectors, shadow run"]),
            Box(66, 16.6, 11, 5, "probation", ["in use, watched"]),
            Box(81, 16.6, 11, 5, "last good", ["kept, to go back"], "own"),
            Way([(14.5, 9), (14.5, 13)], "proposal", (13.7, 11.3), "end"),
            Way([(25, 15.5), (29.5, 15.5), (29.5, 6.5), (34, 6.5)]),
            Way([(44.5, 9), (44.5, 10.5)]),
            Way([(44.5, 15.5), (44.5, 17)]),
            Way([(55, 19.5), (59.5, 19.5), (59.5, 6.3), (66, 6.3)], "assignment", (56, 20.9), "start"),
            Way([(71.5, 8.6), (71.5, 10.4)]),
            Way([(71.5, 15), (71.5, 16.6)]),
            Way([(77, 19.1), (81, 19.1)], both=True),
            Way([(71.5, 21.6), (71.5, 23.8), (44.5, 23.8), (44.5, 22)], "one report", (57.5, 23.3)),
        ],
    )


DRAWN: dict[str, Callable[[], str]] = {
    "road.svg": road,
    "processes.svg": processes,
    "states.svg": states,
    "releases.svg": releases,
}


def main(arguments: list[str]) -> int:
    """Write the pictures, or say which are stale."""
    stale = []
    for name, draw in DRAWN.items():
        path, text = PICTURES / name, draw()
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in arguments:
                path.write_text(text, encoding="utf-8")
    if "--check" in arguments and stale:
        sys.stderr.write(f"stale: {', '.join(stale)}; run python -m docs.diagrams\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
