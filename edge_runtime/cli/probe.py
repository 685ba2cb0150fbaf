"""Opening a camera for a moment: does it deliver a picture, and what does it say about itself."""

import threading
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.clock import NS_PER_S, Clock, SystemClock
from edge_runtime.config.source import SourceConfig
from edge_runtime.errors import SourceError
from edge_runtime.sources import Frame, SourceStatus, open_source

_LIGHT_NS = 2 * NS_PER_S
"""How long a dark picture is given to become a light one: cameras begin with black frames."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What a camera delivered.

    Attributes:
        frame: a picture.
        status: of the source when it delivered it.
    """

    frame: Frame
    status: SourceStatus

    @property
    def seen(self) -> str:
        """`768x576, 10 fps, mpeg4`."""
        facts = self.status.stream
        parts = [f"{self.frame.width}x{self.frame.height}"]
        if facts is not None:
            parts += [f"{facts.fps:g} fps"] if facts.fps else []
            parts.append(facts.codec)
            parts += [f"turned by {facts.rotation} degrees"] if facts.rotation else []
        return ", ".join(parts) + (" (the picture is dark)" if self.frame.dark else "")


def probe(name: str, config: SourceConfig, base: Path, timeout_s: float, clock: Clock | None = None) -> Probe:
    """Open a source, take one picture, close it.

    Args:
        name: of the camera.
        config: its source.
        base: folder that relative paths start from.
        timeout_s: the picture must be there by then.
        clock: monotonic time.

    Raises:
        SourceError: no picture in time; the text says why and holds no credentials.
    """
    clock = clock or SystemClock()
    source = open_source(name, config, base=base, clock=clock)
    changed = threading.Event()
    source.on_change(changed.set)
    start = clock.monotonic_ns()
    deadline = start + int(timeout_s * NS_PER_S)
    dark: Probe | None = None
    source.start()
    try:
        while True:
            changed.clear()
            frame = source.poll()
            status = source.status()
            now = clock.monotonic_ns()
            if frame is not None:
                dark = Probe(frame, status)
                if not frame.dark or now - start > _LIGHT_NS:
                    return dark
                continue
            if source.finished or now >= deadline or (dark and now - start > _LIGHT_NS):
                break
            changed.wait(min((deadline - now) / NS_PER_S, 0.2))
    finally:
        source.stop(5.0)
    if dark is not None:
        return dark
    if status.error is None and status.state.value == "ended":
        raise SourceError(f"camera {name} ended without a picture")
    reason = status.error or f"it is {status.state.value}"
    raise SourceError(f"camera {name}: no picture within {timeout_s:g} s: {reason}")
