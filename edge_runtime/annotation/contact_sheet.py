"""One picture of a whole run: a tile for each event and one every few seconds, with captions."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from edge_runtime.annotation.lettering import fit_text, paste, text_tile
from edge_runtime.annotation.palette import Color
from edge_runtime.annotation.video import fitted
from edge_runtime.errors import AnnotationError
from edge_runtime.sources.frame import Image

_GROUND: Color = (24, 24, 24)
_QUIET: Color = (70, 70, 70)
_GAP = 6
_TEXT = 11
_LEAST_SCREEN_RATIO = 0.4


@dataclass(frozen=True, slots=True)
class _Tile:
    image: Image
    caption: str
    color: Color
    is_event: bool


class ContactSheet:
    """Collects tiles in bounded memory and writes them as one PNG.

    When there are too many, every second of the periodic ones is dropped and their interval doubles; if events
    alone are too many, the middle ones go. What was left out is written in the heading.

    Args:
        every_s: seconds between periodic tiles, on the source's own timeline; 0 takes events only.
        max_tiles: how many tiles are kept at most.
        columns: tiles in a row; as many as make the sheet about as wide as a screen when None.
        tile_width: of one tile, in pixels.
    """

    def __init__(
        self,
        every_s: float = 2.0,
        max_tiles: int = 48,
        columns: int | None = None,
        tile_width: int = 320,
    ) -> None:
        self._every_ns = int(every_s * 1e9)
        self._max_tiles = max(max_tiles, 2)
        self._columns = columns
        self._tile_width = tile_width
        self._tile_height: int | None = None
        self._tiles: list[_Tile] = []
        self._next: tuple[int, int] | None = None
        self.left_out = 0

    def __len__(self) -> int:
        return len(self._tiles)

    def wants(self, media_ns: int, epoch: int = 0) -> bool:
        """Whether a periodic tile is due at this time; cheap enough to ask for every frame."""
        if not self._every_ns:
            return False
        return self._next is None or epoch != self._next[0] or media_ns >= self._next[1]

    def add_periodic(self, image: Image, caption: str, media_ns: int, epoch: int = 0) -> None:
        """Adds a tile because its time has come."""
        due = media_ns if self._next is None or epoch != self._next[0] else self._next[1]
        steps = 1 + (media_ns - due) // self._every_ns if self._every_ns else 1
        self._next = (epoch, due + steps * self._every_ns)
        self._add(_Tile(self._shrink(image), caption, _QUIET, is_event=False))

    def add_event(self, image: Image, caption: str, color: Color) -> None:
        """Adds a tile of an event; `color` is its severity's."""
        self._add(_Tile(self._shrink(image), caption, color, is_event=True))

    def _add(self, tile: _Tile) -> None:
        self._tiles.append(tile)
        if len(self._tiles) <= self._max_tiles:
            return
        periodic = [index for index, tile in enumerate(self._tiles) if not tile.is_event]
        drop = periodic[1::2] or [len(self._tiles) // 2]
        self._every_ns *= 2 if len(periodic) > 1 else 1
        self.left_out += len(drop)
        for index in reversed(drop):
            del self._tiles[index]

    def _shrink(self, image: Image) -> Image:
        if self._tile_height is None:
            ratio = min(max(image.shape[0] / image.shape[1], _LEAST_SCREEN_RATIO), 1 / _LEAST_SCREEN_RATIO)
            self._tile_height = round(self._tile_width * ratio)
        return fitted(image, self._tile_height, self._tile_width)

    def render(self, title: str) -> Image:
        """The sheet, (H, W, 3) uint8, BGR; one line of heading even when there is no tile."""
        columns = self._columns or min(max(round(1600 / (self._tile_width + _GAP)), 1), max(len(self), 1))
        heading = title if not self.left_out else f"{title}  ({self.left_out} more tiles left out)"
        tile_height = self._tile_height or 0
        caption_height = text_tile("H", _TEXT, _QUIET).shape[0]
        cell = (tile_height + caption_height + _GAP, self._tile_width + _GAP)
        rows = -(-len(self) // columns)
        top = text_tile(heading, 2 * _TEXT, _GROUND).shape[0] + _GAP
        width = columns * cell[1] + _GAP
        sheet = np.empty((top + rows * cell[0] + _GAP, max(width, 2 * self._tile_width), 3), np.uint8)
        sheet[:] = _GROUND
        paste(
            sheet, text_tile(fit_text(heading, _TEXT + 3, sheet.shape[1]), _TEXT + 3, _GROUND), 0, _GAP // 2
        )
        for index, tile in enumerate(self._tiles):
            y, x = top + (index // columns) * cell[0], _GAP + (index % columns) * cell[1]
            strip = sheet[y : y + caption_height, x : x + self._tile_width]
            strip[:] = tile.color
            paste(strip, text_tile(fit_text(tile.caption, _TEXT, self._tile_width), _TEXT, tile.color), 0, 0)
            sheet[y + caption_height : y + caption_height + tile_height, x : x + self._tile_width] = (
                tile.image
            )
        return sheet

    def save(self, path: Path, title: str) -> None:
        """Writes the sheet as PNG, whole or not at all.

        Raises:
            AnnotationError: the file cannot be written.
        """
        done, png = cv2.imencode(".png", self.render(title), [cv2.IMWRITE_PNG_COMPRESSION, 3])
        part = path.with_name(path.name + ".part")
        try:
            if not done:
                raise OSError(0, "the picture could not be encoded")
            if path.exists() and not path.is_file():
                raise OSError(0, "it is no regular file, which would be replaced")
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(png.tobytes())
            part.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink()
            raise AnnotationError(f"{path}: the contact sheet cannot be written: {error.strerror}") from error
