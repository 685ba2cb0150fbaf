"""Health readings that fail as ordered: one round's readings in, the same or others out.

What the flight recorder measures stays what was read; only what conditions are judged by is changed.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.faults.catalogue import Kind, Unit
from edge_runtime.faults.injection import Injection
from edge_runtime.faults.orders import Injector, orders_file
from edge_runtime.health.linux import Zone
from edge_runtime.health.reading import Reading, temperature, unknown
from edge_runtime.monitor.readings import BatteryReading, Readings
from edge_runtime.state import StateDirectory

KEPT_NS = 601 * NS_PER_S
_GARBAGE_C = -256.0
_GARBAGE_PERCENT = 255


class HealthFaults:
    """Remembers what was read, for faults that give the past.

    Args:
        injector: says what holds.
    """

    def __init__(self, injector: Injector) -> None:
        self._injector = injector
        self._news: list[dict[str, Any]] = []
        self._past: deque[tuple[int, Readings]] = deque()

    @classmethod
    def following(cls, state: StateDirectory, clock: Clock, refused: Callable[[str], None]) -> "HealthFaults":
        """Follow the orders in a state directory, and keep news of them.

        Args:
            state: of the device.
            clock: time.
            refused: is given the sentence where the orders cannot be used.
        """
        news: list[dict[str, Any]] = []

        def told(order: Injection, begun: bool) -> None:  # noqa: FBT001 - the callable's contract
            state = "injected" if begun else "over"
            news.append({"fault": order.id, "state": state, "what": order.text, "by": order.by})

        made = cls(Injector(orders_file(state), clock, told, refused))
        made._news = news
        return made

    def news(self) -> list[dict[str, Any]]:
        """Of each fault that began or ended since the last call: id, state, what it does, who asked for it."""
        found = list(self._news)
        self._news.clear()
        return found

    def applied(self, now_ns: int, readings: Readings) -> Readings:
        """The readings of a round, as the orders have them.

        Args:
            now_ns: CLOCK_MONOTONIC.
            readings: as they were read.
        """
        self._injector.look()
        if not self._past or now_ns - self._past[-1][0] >= NS_PER_S // 2:
            self._past.append((now_ns, readings))
        while self._past[0][0] < now_ns - KEPT_NS:
            self._past.popleft()
        heat, disk, memory = (self._injector.on(unit) for unit in (Unit.TEMPERATURE, Unit.DISK, Unit.MEMORY))
        if heat is not None:
            readings = replace(readings, temperatures=self._temperatures(now_ns, readings, heat))
        if disk is not None:
            free: Reading[int] = self._size(disk)
            readings = replace(
                readings,
                disks={name: replace(found, free_bytes=free) for name, found in readings.disks.items()},
            )
        if memory is not None:
            available = replace(readings.memory, available_bytes=self._size(memory))
            readings = replace(readings, memory=available, memory_full_percent=unknown(_why(memory)))
        return replace(readings, batteries=self._batteries(now_ns, readings))

    def _temperatures(self, now_ns: int, readings: Readings, order: Injection) -> Mapping[str, Zone]:
        past = self._then(now_ns, order)
        zones = readings.temperatures if past is None else past.temperatures
        return {name: replace(zone, celsius=_celsius(zone, order)) for name, zone in zones.items()}

    def _batteries(self, now_ns: int, readings: Readings) -> dict[str, BatteryReading | None]:
        found: dict[str, BatteryReading | None] = {}
        for name, reading in readings.batteries.items():
            order = self._injector.on(Unit.BATTERY, name)
            found[name] = reading if order is None else self._battery(now_ns, name, reading, order)
        return found

    def _battery(
        self, now_ns: int, name: str, reading: BatteryReading | None, order: Injection
    ) -> BatteryReading | None:
        past = self._then(now_ns, order)
        if past is not None:
            reading = past.batteries.get(name)
            if reading is not None and order.kind is not Kind.DELAYED:
                reading = replace(reading, taken_ns=now_ns)  # it goes on to speak, and says the same
        if reading is None or order.kind in (Kind.OFF, Kind.INTERMITTENT):
            return None
        if order.kind is Kind.GARBAGE:
            none: Reading[float] = unknown(f"{_GARBAGE_PERCENT} % is no charge")
            return replace(reading, charge=none, volts=unknown(_why(order)), raw=(str(_GARBAGE_PERCENT),))
        if order.kind is Kind.WRONG and reading.charge.value is not None:
            assert order.amount is not None
            charge = min(1.0, max(0.0, reading.charge.value + order.amount))
            return replace(reading, charge=Reading(charge), volts=unknown(_why(order)))
        return reading

    def _then(self, now_ns: int, order: Injection) -> Readings | None:
        """The readings that a fault gives in place of those of now; None where it gives those of now."""
        if order.kind is Kind.STUCK:
            at_ns = order.begins_ns
        elif order.kind is Kind.DELAYED and order.amount is not None:
            at_ns = now_ns - round(order.amount * NS_PER_S)
        elif order.kind is Kind.SLOW and order.amount is not None:
            at_ns = now_ns - (now_ns - order.begins_ns) % round(order.amount * NS_PER_S)
        else:
            return None
        older = [readings for taken_ns, readings in self._past if taken_ns <= at_ns]
        return older[-1] if older else self._past[0][1]

    @staticmethod
    def _size(order: Injection) -> Reading[int]:
        return Reading(int(order.amount or 0)) if order.kind is Kind.WRONG else unknown(_why(order))


def _celsius(zone: Zone, order: Injection) -> Reading[float]:
    if order.kind in (Kind.OFF, Kind.INTERMITTENT):
        return unknown(_why(order))
    if order.kind is Kind.GARBAGE:
        return temperature(_GARBAGE_C)
    if order.kind is Kind.WRONG and zone.celsius.value is not None and order.amount is not None:
        return temperature(zone.celsius.value + order.amount)
    return zone.celsius


def _why(order: Injection) -> str:
    return f"fault injection {order.id}"
