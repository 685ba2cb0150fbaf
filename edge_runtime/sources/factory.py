"""From a source's configuration to a runner."""

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.config.node import PrivacyMask
from edge_runtime.config.source import (
    FileSource,
    GStreamerSource,
    HttpSource,
    ImagesSource,
    PlaylistSource,
    RtspSource,
    SourceConfig,
    SyntheticSource,
    V4l2Source,
)
from edge_runtime.sources.reader import Reader
from edge_runtime.sources.redact import register_credentials
from edge_runtime.sources.runner import Limits, Plan, SourceRunner

Opener = Callable[[threading.Event], Reader]
"""Opens a connection; called in the source's thread, with an event that asks it to be quick."""

Through = Callable[[Opener], Opener]
"""Puts something between a source and what it reads."""

_Live = RtspSource | HttpSource | V4l2Source | GStreamerSource | SyntheticSource


def open_source(
    name: str,
    config: SourceConfig,
    *,
    masks: Sequence[PrivacyMask] = (),
    base: Path,
    clock: Clock,
    seed: int | None = None,
    through: Through | None = None,
) -> SourceRunner:
    """A source that is ready to be started; nothing is opened yet, and nothing can fail.

    Args:
        name: the camera's name.
        config: where its frames come from.
        masks: polygons blacked out right after decoding.
        base: the folder that relative paths are relative to.
        clock: monotonic time.
        seed: makes the jitter of reconnects repeatable; None draws it from the system.
        through: stands between the source and what it reads; None for nothing.
    """
    register_credentials(config)
    rng = random.Random(seed)  # noqa: S311 - jitter, not a secret
    plan = plan_of(config, base, clock)
    if through is not None:
        plan = replace(plan, open_reader=through(plan.open_reader))
    return SourceRunner(name, plan, masks=masks, clock=clock, rng=rng)


def plan_of(config: SourceConfig, base: Path, clock: Clock) -> Plan:
    """How to open and run a source."""
    opened = _opener(config, base, clock)
    if isinstance(config, (FileSource, ImagesSource, PlaylistSource)):
        loop = isinstance(config, FileSource) and config.loop
        return Plan(opened, None, config.pacing, loop=loop)
    if isinstance(config, SyntheticSource):
        if config.pacing != "camera":
            return Plan(opened, None, config.pacing)
        return Plan(opened, _limits(config))
    return Plan(opened, _limits(config), endless=True)


def _limits(config: _Live) -> Limits:
    return Limits(
        max_age_ns=int(config.max_age * NS_PER_S),
        open_ns=int(config.open_timeout * NS_PER_S),
        stall_after_ns=int(config.stall_after * NS_PER_S),
        frozen_after_ns=int(config.frozen_after * NS_PER_S) or None,
        give_up_after_ns=None if config.give_up_after is None else int(config.give_up_after * NS_PER_S),
        backoff_first_s=config.backoff_first,
        backoff_max_s=config.backoff_max,
    )


def _opener(config: SourceConfig, base: Path, clock: Clock) -> Opener:
    # FFmpeg, OpenCV and GStreamer are imported when the first source that needs them is opened.
    if isinstance(config, SyntheticSource):
        return _Scene(config, clock)
    if isinstance(config, GStreamerSource):
        from edge_runtime.sources.gstreamer import GStreamerReader  # noqa: PLC0415

        return lambda cancel: GStreamerReader(config, clock, cancel)
    if isinstance(config, ImagesSource):
        from edge_runtime.sources.images import ImagesReader  # noqa: PLC0415

        return lambda cancel: ImagesReader(config.path, base, config.interval, clock, cancel)
    if isinstance(config, PlaylistSource):
        from edge_runtime.sources.playlist import PlaylistReader  # noqa: PLC0415

        return lambda cancel: PlaylistReader(config, base, clock, cancel)
    from edge_runtime.sources.address import address_of  # noqa: PLC0415
    from edge_runtime.sources.pyav import PyavReader  # noqa: PLC0415

    return lambda cancel: PyavReader(address_of(config, base), clock, cancel)


class _Scene:
    """Opens the drawn camera again and again; it goes on where it was."""

    def __init__(self, config: SyntheticSource, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._drawn = 0
        self._last: Reader | None = None

    def __call__(self, cancel: threading.Event) -> Reader:
        from edge_runtime.sources.synthetic import SyntheticReader  # noqa: PLC0415

        if isinstance(self._last, SyntheticReader):
            self._drawn = self._last.drawn
        self._last = SyntheticReader(self._config, self._clock, cancel, self._drawn)
        return self._last
