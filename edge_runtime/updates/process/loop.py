"""The loop of the updates' process: a turn, a beat, and a wait in which questions are answered."""

import select
import socket
from collections.abc import Callable

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.updates.process.driver import Driver
from edge_runtime.updates.process.socket import UpdatesSocket

_LOOK_S = 1.0
"""Between two looks at what the fleet desires."""


def run(
    driver: Driver,
    listening: UpdatesSocket,
    ending: socket.socket,
    *,
    beat: Callable[[], object],
    changed: Callable[[], bool],
    clock: Clock,
) -> bool:
    """Turn until `ending` has something to read, or until something changed of which the driver is made.

    Args:
        driver: of this device.
        listening: where people ask.
        ending: becomes readable when the process is asked to end.
        beat: told after each turn.
        changed: whether the driver has to be made anew.
        clock: measures waits.

    Returns:
        Whether it was asked to end.
    """
    while not changed():
        wait_s = min(driver.turn(), _LOOK_S)
        beat()
        until_ns = clock.monotonic_ns() + int(wait_s * NS_PER_S)
        while (left_s := (until_ns - clock.monotonic_ns()) / NS_PER_S) > 0:
            ready, _, _ = select.select([ending.fileno(), listening.fileno()], [], [], left_s)
            if ending.fileno() in ready:
                return True
            if ready:
                listening.serve()
    return False
