"""Those who watch the guard are fed only by a call, and told in the form that they read."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_runtime.guard.notify import HardwareWatchdog, ServiceManager


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """A service manager's socket, with what arrives on it."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    end.bind(str(tmp_path / "notify"))
    end.settimeout(0)
    yield end
    end.close()


def _told(end: socket.socket) -> list[str]:
    found = []
    with contextlib.suppress(BlockingIOError):
        while True:
            found.append(end.recv(4096).decode())
    return found


def test_the_manager_is_told_in_its_own_words(manager: socket.socket, tmp_path: Path) -> None:
    service = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1000000"})
    service.ready("standby,\nall workers beat")
    service.feed()
    service.status("nominal")
    service.stopping()
    assert _told(manager) == [
        "READY=1\nSTATUS=standby, all workers beat",
        "WATCHDOG=1",
        "STATUS=nominal",
        "STOPPING=1",
    ]
    assert (service.period_ns, service.lost) == (500_000_000, 0)
    service.close()
    assert not service.listens


def test_an_abstract_socket_is_found() -> None:
    name = f"guard-notify-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind("\0" + name)
        service = ServiceManager({"NOTIFY_SOCKET": "@" + name})
        service.ready("standby")
        assert end.recv(100) == b"READY=1\nSTATUS=standby"
        service.close()


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"},
    ],
)
def test_nobody_is_fed_who_does_not_watch(
    environment: dict[str, str], manager: socket.socket, tmp_path: Path
) -> None:
    service = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify"), **environment})
    service.feed()
    assert service.period_ns is None
    assert _told(manager) == []
    service.close()


def test_its_own_process_id_is_meant(tmp_path: Path) -> None:
    assert ServiceManager({"WATCHDOG_USEC": "10", "WATCHDOG_PID": str(os.getpid())}).period_ns == 5_000


def test_a_manager_that_is_gone_or_does_not_read_costs_a_count_and_never_a_wait(tmp_path: Path) -> None:
    assert ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).lost == 1
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(str(tmp_path / "notify"))
        service = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")})
        for _ in range(10_000):  # more than any socket holds
            service.status("x" * 200)
        assert service.lost > 0
        service.close()


def test_an_address_that_is_none_is_nobody() -> None:
    service = ServiceManager({"NOTIFY_SOCKET": "relative"})
    service.ready("standby")
    assert not service.listens
    assert service.lost == 0


def test_the_hardware_is_fed_by_calls_alone_and_disarmed_by_the_magic_close(tmp_path: Path) -> None:
    device = tmp_path / "watchdog"
    device.touch()
    hardware = HardwareWatchdog(str(device), 30)
    assert device.read_bytes() == b""
    hardware.feed()
    hardware.feed()
    hardware.close(disarm=True)
    assert device.read_bytes() == b"\0\0V"
    assert (hardware.timeout_s, hardware.reset_us) == (None, None), (
        "a file has no time-out: unknown, not a number"
    )


def test_the_hardware_goes_on_counting_unless_it_is_disarmed(tmp_path: Path) -> None:
    device = tmp_path / "watchdog"
    device.touch()
    hardware = HardwareWatchdog(str(device), 30)
    hardware.close(disarm=False)
    assert device.read_bytes() == b""
    hardware.feed()
    assert hardware.lost == 1


def test_a_device_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        HardwareWatchdog(str(tmp_path / "watchdog"), 30)


def test_one_that_was_never_there_can_be_closed(tmp_path: Path) -> None:
    service = ServiceManager({})
    service.close()
    assert not service.listens
