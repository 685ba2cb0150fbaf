"""Colours, BGR: one per track, one per severity, and a text colour that can be read on any of them."""

from edge_runtime.protocol import Severity

Color = tuple[int, int, int]

BLACK: Color = (0, 0, 0)
WHITE: Color = (255, 255, 255)
GREY: Color = (150, 150, 150)
CALM: Color = (190, 170, 60)
"""A zone or line in which nothing is going on."""

_TRACKS: tuple[Color, ...] = (
    # Okabe and Ito's palette for colour-blind readers, without its black, in two brightnesses.
    (0, 159, 230),
    (233, 180, 86),
    (115, 158, 0),
    (66, 228, 240),
    (178, 114, 0),
    (0, 94, 213),
    (167, 121, 204),
    (120, 205, 250),
    (250, 220, 170),
    (180, 220, 120),
    (230, 180, 120),
    (215, 190, 235),
)

_SEVERITIES: dict[Severity, Color] = {
    Severity.INFO: (233, 180, 86),
    Severity.NOTICE: (66, 228, 240),
    Severity.WARNING: (0, 140, 255),
    Severity.CRITICAL: (60, 20, 220),
}


def track_color(track_id: int) -> Color:
    """The same colour for the same id; neighbouring ids differ."""
    return _TRACKS[track_id % len(_TRACKS)]


def severity_color(severity: Severity) -> Color:
    """Blue, yellow, orange, red with rising severity."""
    return _SEVERITIES[severity]


def readable_on(color: Color) -> Color:
    """Black or white, whichever has more contrast on `color` (luma of ITU-R BT.601)."""
    blue, green, red = color
    return BLACK if 0.114 * blue + 0.587 * green + 0.299 * red > 110 else WHITE
