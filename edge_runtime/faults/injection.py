"""One injected fault: what, where, from when to when; a record that a file carries and that refuses nonsense."""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from edge_runtime.clock import NS_PER_S
from edge_runtime.faults.catalogue import NAMED, FaultRefused, Kind, Unit, effect_of

LONGEST_S = 24 * 3600.0
"""A fault that nobody takes back ends by itself."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")
_ID = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class Injection:
    """One fault.

    Attributes:
        id: eight hexadecimal digits; names it in events.
        unit: what fails.
        kind: how.
        name: which camera or battery; empty for every one.
        amount: see the catalogue; None where the combination takes none.
        begins_ns, ends_ns: CLOCK_MONOTONIC of the boot that `boot_id` names.
        boot_id: of the kernel; in another boot it is over.
        by: who asked for it.
    """

    id: str
    unit: Unit
    kind: Kind
    name: str
    amount: float | None
    begins_ns: int
    ends_ns: int
    boot_id: str
    by: str

    def holds(self, now_ns: int) -> bool:
        """Whether it is at work at a time, by its own word on when it is on."""
        if not self.begins_ns <= now_ns < self.ends_ns:
            return False
        if self.kind is not Kind.INTERMITTENT or self.amount is None:
            return True
        period_ns = self.amount * NS_PER_S
        return (now_ns - self.begins_ns) % period_ns >= period_ns / 2

    def meets(self, unit: Unit, name: str) -> bool:
        """Whether it is about this camera, battery or sensor."""
        return self.unit is unit and self.name in ("", name)

    @property
    def text(self) -> str:
        """What it does, in one line."""
        effect = effect_of(self.unit.value, self.kind.value)[2]
        of = f" {self.name}" if self.name else ""
        return f"{self.unit.value}{of} {self.kind.value}: {effect.told(self.amount)}"

    def to_json(self) -> dict[str, Any]:
        """As the orders' file holds it."""
        return {**asdict(self), "unit": self.unit.value, "kind": self.kind.value}


def injection(
    unit: str,
    kind: str,
    *,
    id: str,  # noqa: A002 - the field's name
    begins_ns: int,
    for_s: float,
    boot_id: str,
    name: str = "",
    amount: float | None = None,
    by: str = "",
) -> Injection:
    """A fault that was asked for.

    Raises:
        FaultRefused: the combination is not supported, or a value is out of its range.
    """
    which, how, effect = effect_of(unit, kind)
    if not (math.isfinite(for_s) and 0 < for_s <= LONGEST_S):
        raise FaultRefused(f"a fault lasts more than 0 and at most {LONGEST_S:g} s")
    if name and which not in NAMED:
        raise FaultRefused(f"{unit} {kind} takes no name: it means every {unit} reading of the device")
    if name and not _NAME.fullmatch(name):
        raise FaultRefused(f"{name[:40]!r} is no name of a camera or a battery")
    if effect.amount is None and amount is not None:
        raise FaultRefused(f"{unit} {kind} takes no amount")
    if amount is not None and not (math.isfinite(amount) and effect.low <= amount <= effect.high):
        raise FaultRefused(
            f"the amount of {unit} {kind} is {effect.low:g} to {effect.high:g} {effect.measure}".rstrip()
        )
    given = effect.amount if amount is None else amount
    return Injection(
        id, which, how, name, given, begins_ns, begins_ns + round(for_s * NS_PER_S), boot_id, by[:64]
    )


def refuse_absent(
    order: Injection, cameras: Collection[str], batteries: Collection[str], *, monitored: bool
) -> None:
    """Refuse a fault of what the device does not have: it would be ordered, and nothing would happen.

    Args:
        order: that was asked for.
        cameras: names in the device's configuration.
        batteries: names there.
        monitored: whether a monitor reads its health.

    Raises:
        FaultRefused: it has no such camera or battery, none at all, or nobody who reads its health.
    """
    if order.unit is not Unit.CAMERA and not monitored:
        raise FaultRefused(
            f"nobody reads {order.unit.value} here: the configuration has neither `guard` nor `delivery`"
        )
    if order.unit not in NAMED:
        return
    there = cameras if order.unit is Unit.CAMERA else batteries
    if not there:
        raise FaultRefused(f"the configuration has no {order.unit.value}: nothing would fail")
    if order.name and order.name not in there:
        known = ", ".join(sorted(there))
        raise FaultRefused(f"the configuration has no {order.unit.value} {order.name}; it has {known}")


def from_json(found: object) -> Injection:
    """A fault out of the orders' file.

    Raises:
        FaultRefused: it is none.
    """
    if not isinstance(found, Mapping) or set(found) != set(Injection.__slots__):
        raise FaultRefused("an order does not have exactly the fields of a fault")
    texts = ("id", "unit", "kind", "name", "boot_id", "by")
    numbers = ("begins_ns", "ends_ns")
    if not all(isinstance(found[field], str) for field in texts):
        raise FaultRefused(f"{', '.join(texts)} of an order are texts")
    if not all(type(found[field]) is int and found[field] >= 0 for field in numbers):
        raise FaultRefused(f"{' and '.join(numbers)} of an order are whole numbers")
    amount = found["amount"]
    if amount is not None and (isinstance(amount, bool) or not isinstance(amount, int | float)):
        raise FaultRefused("the amount of an order is a number")
    if not _ID.fullmatch(found["id"]):
        raise FaultRefused("the id of an order is eight hexadecimal digits")
    return injection(
        found["unit"],
        found["kind"],
        id=found["id"],
        begins_ns=found["begins_ns"],
        for_s=(found["ends_ns"] - found["begins_ns"]) / NS_PER_S,
        boot_id=found["boot_id"],
        name=found["name"],
        amount=None if amount is None else float(amount),
        by=found["by"],
    )
