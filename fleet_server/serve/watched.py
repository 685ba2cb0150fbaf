"""The service manager that watches the server: told when it is ready, and fed for as long as it works.

Fed after a turn through the event loop and through a thread of its pool, where requests run: a server in which one
of the two hangs answers nobody. A database or a broker that is away is no reason to be started again, because
nothing would be better afterwards; `/readyz` and the alerts say that.
"""

import asyncio
from collections.abc import MutableMapping

from edge_runtime.clock import NS_PER_S
from edge_runtime.guard.notify import ServiceManager

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


def service_manager(environment: MutableMapping[str, str]) -> ServiceManager:
    """The one that started this process, if any; its variables are taken out, for they are not for children."""
    manager = ServiceManager(environment)
    for name in VARIABLES:
        environment.pop(name, None)
    return manager


async def keep_fed(manager: ServiceManager) -> None:
    """Feed it twice in the time that it waits, for ever; returns where it does not watch."""
    while manager.period_ns is not None:
        await asyncio.sleep(manager.period_ns / NS_PER_S)
        await asyncio.to_thread(manager.feed)
