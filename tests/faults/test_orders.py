"""The file of orders: who may write it, what is believed of it, and that each fault is told twice."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edge_runtime.clock import NS_PER_S
from edge_runtime.faults import FaultRefused, Injection, Injector, Unit, injection, read_orders, write_orders
from edge_runtime.faults.orders import MOST
from tests.rigs.cameras import FakeClock

BOOT = "test"


def order(
    clock: FakeClock, number: int = 1, unit: str = "camera", kind: str = "off", **given: object
) -> Injection:
    fields: dict[str, object] = {
        "id": f"{number:08x}",
        "begins_ns": clock.now_ns,
        "for_s": 5.0,
        "boot_id": BOOT,
        **given,
    }
    return injection(unit, kind, **fields)  # type: ignore[arg-type]


class Told:
    """What an injector said."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, bool]] = []
        self.refused: list[str] = []

    def injector(self, path: Path, clock: FakeClock) -> Injector:
        return Injector(
            path, clock, lambda one, begun: self.lines.append((one.id, begun)), self.refused.append
        )


def test_what_was_written_is_read(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "faults.json"
    orders = [order(clock, 1, name="yard"), order(clock, 2, "battery", "wrong", amount=0.5, by="ada")]
    write_orders(path, orders)
    assert read_orders(path) == orders
    assert path.stat().st_mode & 0o777 == 0o600


def test_no_file_is_no_fault(tmp_path: Path) -> None:
    told = Told()
    assert told.injector(tmp_path / "none", FakeClock()).on(Unit.CAMERA) is None
    assert not told.refused


def test_a_fault_begins_and_ends_and_both_are_told_once(tmp_path: Path) -> None:
    clock, told, path = FakeClock(), Told(), tmp_path / "faults.json"
    injector = told.injector(path, clock)
    assert injector.on(Unit.CAMERA, "yard") is None
    write_orders(path, [order(clock)])
    clock.advance(0.2)
    found = injector.on(Unit.CAMERA, "yard")
    assert found is not None
    assert injector.on(Unit.BATTERY, "pack") is None
    assert told.lines == [("00000001", True)]
    clock.advance(5)
    assert injector.on(Unit.CAMERA, "yard") is None
    clock.advance(5)
    injector.look()
    assert told.lines == [("00000001", True), ("00000001", False)]


def test_what_is_taken_back_is_over(tmp_path: Path) -> None:
    clock, told, path = FakeClock(), Told(), tmp_path / "faults.json"
    injector = told.injector(path, clock)
    write_orders(path, [order(clock)])
    assert injector.on(Unit.CAMERA) is not None
    write_orders(path, [])
    clock.advance(0.2)
    assert injector.on(Unit.CAMERA) is None
    assert told.lines[-1] == ("00000001", False)


def test_another_boots_orders_are_over(tmp_path: Path) -> None:
    clock, told, path = FakeClock(), Told(), tmp_path / "faults.json"
    write_orders(path, [order(clock, boot_id="before")])
    assert told.injector(path, clock).on(Unit.CAMERA) is None


def test_a_name_means_one_and_none_means_all(tmp_path: Path) -> None:
    clock, told, path = FakeClock(), Told(), tmp_path / "faults.json"
    write_orders(path, [order(clock, name="yard")])
    injector = told.injector(path, clock)
    assert injector.on(Unit.CAMERA, "yard") is not None
    assert injector.on(Unit.CAMERA, "gate") is None


def test_intermittent_is_off_in_the_second_half_of_each_period(tmp_path: Path) -> None:
    clock, told, path = FakeClock(), Told(), tmp_path / "faults.json"
    write_orders(path, [order(clock, kind="intermittent", amount=2.0, for_s=60.0)])
    injector, seen = told.injector(path, clock), []
    for _ in range(8):
        clock.advance(0.5)
        seen.append(injector.on(Unit.CAMERA) is not None)
    assert seen == [False, True, True, False, False, True, True, False]
    assert told.lines == [("00000001", True)]


def spoilt(document: object) -> bytes:
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"not json",
        b"{}",
        spoilt([{}]),
        spoilt([[1]]),
        spoilt([None] * (MOST + 1)),
        b"[" * 70_000,
    ],
)
def test_a_damaged_file_injects_nothing_and_is_told_once(tmp_path: Path, content: bytes) -> None:
    clock, told, path = FakeClock(), Told(), tmp_path / "faults.json"
    path.write_bytes(content)
    path.chmod(0o600)
    injector = told.injector(path, clock)
    for _ in range(3):
        assert injector.on(Unit.CAMERA) is None
        clock.advance(1)
    assert len(told.refused) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", "x"),
        ("unit", "guard"),
        ("kind", 3),
        ("begins_ns", 1.5),
        ("begins_ns", True),
        ("ends_ns", -1),
        ("amount", "much"),
        ("extra", 1),
    ],
)
def test_an_order_that_is_none_is_refused(tmp_path: Path, field: str, value: object) -> None:
    path = tmp_path / "faults.json"
    path.write_bytes(spoilt([{**order(FakeClock()).to_json(), field: value}]))
    path.chmod(0o600)
    with pytest.raises(FaultRefused):
        read_orders(path)


def test_a_file_that_others_may_write_is_not_believed(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "faults.json"
    write_orders(path, [order(clock)])
    path.chmod(0o620)
    with pytest.raises(FaultRefused, match="others than its owner"):
        read_orders(path)
    path.chmod(0o600)
    (tmp_path / "link.json").symlink_to(path)
    with pytest.raises(FaultRefused, match="cannot be read"):
        read_orders(tmp_path / "link.json")


def test_more_than_a_few_at_once_are_refused(tmp_path: Path) -> None:
    clock = FakeClock()
    with pytest.raises(FaultRefused, match="at most 16"):
        write_orders(tmp_path / "faults.json", [order(clock, number) for number in range(MOST + 1)])


def test_of_two_the_later_order_counts(tmp_path: Path) -> None:
    clock, told, path = FakeClock(), Told(), tmp_path / "faults.json"
    first = order(clock, 1)
    write_orders(path, [first, replace(order(clock, 2, kind="stuck"), ends_ns=clock.now_ns + 2 * NS_PER_S)])
    found = told.injector(path, clock).on(Unit.CAMERA)
    assert found is not None
    assert found.id == "00000002"
