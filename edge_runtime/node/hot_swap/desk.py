"""Answers what the updates' process asks: a line in, a line out; nothing that a line says can stop the cameras."""

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.health import HealthReader, read_health
from edge_runtime.node.hot_swap.configuration import ConfigurationSlot
from edge_runtime.node.hot_swap.slot import Slot
from edge_runtime.protocol.swap import (
    MAX_LINE_BYTES,
    MAX_SLOTS,
    Activate,
    Ask,
    Discard,
    Load,
    Look,
    Revert,
    Settle,
    Shadow,
    SlotLook,
    SwapAnswer,
    line_of,
    read_ask,
)
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.telemetry import get_logger
from edge_runtime.updates.problems import UpdateRefused

_TEMPERATURE_NS: Final = 2 * NS_PER_S
_SHOWN: Final = 120


class SwapDesk:
    """Commands of one process of cameras. `answer` may be called from several threads.

    Args:
        slots: by name.
        temperature: of the hottest sensor in degrees Celsius; None where none is known.
        clock: monotonic time.
    """

    def __init__(
        self,
        slots: Mapping[str, Slot | ConfigurationSlot],
        temperature: Callable[[], float | None],
        clock: Clock,
    ) -> None:
        self._slots, self._temperature, self._clock = slots, temperature, clock
        self._begun_ns = clock.monotonic_ns()
        self._one_at_a_time = threading.Lock()

    def answer(self, line: bytes) -> bytes:
        """The answer to a line; garbage is refused like anything else that cannot be done."""
        try:
            if len(line) > MAX_LINE_BYTES:
                raise ValueError(f"a line has at most {MAX_LINE_BYTES} bytes")
            ask = read_ask(line)
        except ValueError as error:
            return line_of(
                self._refused(UpdateRefused(UpdateCode.DEFECT, f"not understood: {_short(error)}"))
            )
        try:
            with self._one_at_a_time:
                return line_of(self._do(ask))
        except UpdateRefused as refused:
            return line_of(self._refused(refused))
        except Exception:  # noqa: BLE001 - whatever a command runs into, the next one is to be answered
            get_logger().exception("a command to perception failed", do=ask.do, slot=ask.slot)
            text = "perception could not do it; see its log"
            return line_of(self._refused(UpdateRefused(UpdateCode.DEFECT, text, again=True)))

    def _do(self, ask: Ask) -> SwapAnswer:
        if isinstance(ask, Look) and ask.slot is None:
            return self._answered(*(slot.look() for slot in self._slots.values()))
        slot = self._slot(ask.slot)
        if isinstance(ask, Load) and isinstance(slot, ConfigurationSlot):
            slot.load(ask.release, Path(ask.package_dir), ask.values)
        elif isinstance(ask, Load) and isinstance(slot, Slot):
            slot.load(ask.release, Path(ask.package_dir))
        elif isinstance(ask, Shadow):
            slot.shadow(on=ask.on)
        elif isinstance(ask, Activate):
            slot.activate(ask.release, ask.trackers)
        elif isinstance(ask, Revert):
            slot.revert(ask.release, None if ask.package_dir is None else Path(ask.package_dir))
        elif isinstance(ask, Settle):
            slot.settle()
        elif isinstance(ask, Discard):
            slot.discard()
        return self._answered(slot.look())

    def _slot(self, name: str | None) -> Slot | ConfigurationSlot:
        slot = None if name is None else self._slots.get(name)
        if slot is None:
            known = ", ".join(self._slots) or "none"
            raise UpdateRefused(
                UpdateCode.SLOT_UNKNOWN, f"no camera looks through a model {name}; those in use are {known}"
            )
        return slot

    def _answered(self, *looks: SlotLook) -> SwapAnswer:
        return SwapAnswer(
            ok=True,
            pid=os.getpid(),
            up_s=self._up_s(),
            temperature_c=self._temperature(),
            slots=looks[:MAX_SLOTS],
        )

    def _refused(self, why: UpdateRefused) -> SwapAnswer:
        return SwapAnswer(
            ok=False,
            code=why.code,
            text=str(why)[:300],
            again=why.again,
            pid=os.getpid(),
            up_s=self._up_s(),
        )

    def _up_s(self) -> float:
        return (self._clock.monotonic_ns() - self._begun_ns) / NS_PER_S


class Thermometer:
    """The hottest sensor, looked at when somebody asks, and not again within two seconds.

    Args:
        reader: where to look.
        clock: monotonic time.
    """

    def __init__(self, reader: HealthReader, clock: Clock) -> None:
        self._reader, self._clock = reader, clock
        self._lock = threading.Lock()
        self._last: tuple[int, float | None] | None = None

    def __call__(self) -> float | None:
        """Degrees Celsius; None where none is known."""
        with self._lock:
            now_ns = self._clock.monotonic_ns()
            if self._last is None or now_ns - self._last[0] >= _TEMPERATURE_NS:
                self._last = now_ns, read_health(self._reader).hottest.celsius.value
            return self._last[1]


def _short(error: ValueError) -> str:
    """What is wrong with a line, without the line: what was sent may be anything."""
    from pydantic import ValidationError  # noqa: PLC0415 - for its structure alone

    if not isinstance(error, ValidationError):
        return str(error)[:_SHOWN]
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}"[:_SHOWN]
