"""The injector of one process, where the device's own configuration permits faults."""

from pathlib import Path

from edge_runtime.clock import Clock
from edge_runtime.config import LoadedConfig
from edge_runtime.faults import Injection, Injector, orders_file
from edge_runtime.node.places import state_of
from edge_runtime.telemetry import get_logger


def fault_injector(loaded: LoadedConfig, option: Path | None, clock: Clock) -> Injector | None:
    """Follows the orders in the state directory; None where nothing may be injected.

    Each fault is logged by each process that it may concern; the monitor makes an event of it.

    Args:
        loaded: the configuration; a release of the fleet cannot change what it says of faults.
        option: of a `--state` option.
        clock: time.
    """
    if not loaded.config.injects_faults:
        return None
    return Injector(orders_file(state_of(loaded, option)), clock, _told, refused)


def _told(order: Injection, begun: bool) -> None:  # noqa: FBT001 - the callable's contract
    get_logger().warning(
        "fault injection " + ("begins" if begun else "is over"), id=order.id, what=order.text
    )


def refused(sentence: str) -> None:
    """A file of orders that cannot be used."""
    get_logger().error("faults are not injected", why=sentence)
