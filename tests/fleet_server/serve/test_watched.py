"""What a service manager is told of the server, over a real socket."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fleet_server.serve.watched import VARIABLES, keep_fed, service_manager

PERIOD_US = 40_000


@pytest.fixture
def manager_socket(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
        found.bind(str(tmp_path / "notify"))
        found.settimeout(30)
        yield found


def environment(tmp_path: Path) -> dict[str, str]:
    return {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": str(PERIOD_US), "PATH": "/bin"}


def test_children_are_not_told_of_the_service_manager(manager_socket: socket.socket, tmp_path: Path) -> None:
    variables = environment(tmp_path)
    manager = service_manager(variables)
    assert not set(VARIABLES) & set(variables)
    assert variables == {"PATH": "/bin"}
    manager.ready("as it should be")
    assert manager_socket.recv(1000) == b"READY=1\nSTATUS=as it should be"
    manager.close()


def test_it_is_fed_for_as_long_as_threads_take_work(manager_socket: socket.socket, tmp_path: Path) -> None:
    manager = service_manager(environment(tmp_path))
    free = threading.Event()

    async def live() -> int:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        feeding = asyncio.create_task(keep_fed(manager))
        await asyncio.wait_for(_fed(manager_socket), 60)
        hung = asyncio.ensure_future(asyncio.to_thread(free.wait, 60))
        await asyncio.sleep(PERIOD_US * 3 / 1e6)
        _drain(manager_socket)
        await asyncio.sleep(PERIOD_US * 10 / 1e6)  # nothing can come: the only thread hangs
        fed = _drain(manager_socket)
        free.set()
        await hung
        feeding.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await feeding
        return fed

    assert asyncio.run(live()) == 0
    manager.close()


def test_where_nobody_watches_it_is_over_at_once(manager_socket: socket.socket, tmp_path: Path) -> None:
    manager = service_manager({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    asyncio.run(asyncio.wait_for(keep_fed(manager), 60))
    assert _drain(manager_socket) == 0
    manager.close()


async def _fed(found: socket.socket) -> None:
    while not _drain(found):
        await asyncio.sleep(0.01)


def _drain(found: socket.socket) -> int:
    count = 0
    found.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            assert found.recv(1000) == b"WATCHDOG=1"
            count += 1
    return count
