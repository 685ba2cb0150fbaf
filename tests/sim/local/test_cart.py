"""The cart of rig `local`: what its drive does with datagrams, and the way until it stood."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edge_runtime.clock import SystemClock
from sim.local.cart import Cart, Ends, Sample, way_to_stand
from sim.robot import Robot

WITHIN_S = 60.0


def until(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def carts(tmp_path: Path) -> Iterator[Callable[..., Cart]]:
    made: list[Cart] = []

    def make(*, gated: bool) -> Cart:
        ends = Ends(tmp_path / "motion.sock", tmp_path / "drive.sock", ("crawl", "full"))
        cart = Cart(ends, Robot(0.5, 0.1), 0.1, SystemClock(), gated=gated)
        made.append(cart)
        cart.start()
        return cart

    yield make
    for cart in made:
        cart.close()


def test_without_a_motion_gate_nothing_comes_to_the_drive(carts: Callable[..., Cart]) -> None:
    cart = carts(gated=True)
    assert until(lambda: len(cart.samples) >= 50)
    assert cart.stands
    assert not cart.samples[-1].passed
    assert not cart.is_permitted


def test_a_planner_that_passes_no_gate_drives(carts: Callable[..., Cart]) -> None:
    cart = carts(gated=False)
    assert until(lambda: cart.samples[-1:] != [] and cart.samples[-1].passed > 2)
    assert cart.samples[-1].v_m_s == 0, "nobody wants it to drive"
    cart.is_wanted = True
    assert until(lambda: cart.at_full_speed)
    assert cart.samples[-1].v_m_s > 0
    assert cart.samples[-1].passed > 5
    assert not cart.is_permitted, "nobody permitted it"


def drive(*speeds: float) -> list[Sample]:
    return [
        Sample(float(at), speed, way_m=sum(speeds[:at]), passed=at, open=True)
        for at, speed in enumerate(speeds)
    ]


@pytest.mark.parametrize(
    ("samples", "begins", "way"),
    [
        (drive(1, 1, 1, 0, 0), (1.5,), 2.0),
        (drive(1, 1, 1, 1), (1.5,), None),  # it never stood
        (drive(0, 0, 1, 1, 0), (0.5,), None),  # it stood when it happened
        (drive(0, 0, 1, 1, 0), (0.5, 2.5), 2.0),  # the second found it moving
        ([], (1.0,), None),
    ],
)
def test_the_way_from_a_fault_until_it_stood(
    samples: list[Sample], begins: tuple[float, ...], way: float | None
) -> None:
    assert way_to_stand(samples, begins) == way
