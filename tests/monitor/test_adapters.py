"""Reports of a robot's own software, through the real socket: what is understood, refused, and in which words."""

import json
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.clock import NS_PER_S
from edge_runtime.errors import ConfigError
from edge_runtime.monitor.adapters import (
    AHEAD_NS,
    LARGEST_DATAGRAM,
    MOST_AT_ONCE,
    AdapterSocket,
    BadReport,
    read_report,
)
from edge_runtime.monitor.readings import Pose
from tests.rigs.boards import FixedClock

KNOWN = frozenset({"main", "arm"})
NOW = FixedClock().now_ns


@pytest.fixture
def adapters(tmp_path: Path) -> Iterator[AdapterSocket]:
    made = AdapterSocket(tmp_path / "adapters.sock", KNOWN, FixedClock())
    yield made
    made.close()


@pytest.fixture
def robot(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.settimeout(5)
        end.bind(str(tmp_path / "robot.sock"))
        yield end


def send(robot: socket.socket, tmp_path: Path, report: Any) -> None:
    data = report if isinstance(report, bytes) else json.dumps(report).encode()
    robot.sendto(data, str(tmp_path / "adapters.sock"))


def test_reports_are_taken_and_the_newest_counts(
    adapters: AdapterSocket, robot: socket.socket, tmp_path: Path
) -> None:
    send(robot, tmp_path, {"pose": {"captured_ns": NOW - 5, "spread_m": 0.1}})
    send(robot, tmp_path, {"pose": {"captured_ns": NOW - 9, "spread_m": 0.2}, "map": {"built_ns": 7}})
    send(robot, tmp_path, {"map": {"built_ns": 3}})
    send(robot, tmp_path, {"battery": {"name": "main", "charge": 0.7, "volts": 24.1}})
    send(robot, tmp_path, {"battery": {"name": "arm", "volts": 12, "charging": True}})
    adapters.listen()
    heard = adapters.heard
    assert (heard.pose, heard.map_built_ns) == (Pose(NOW - 5, 0.1), 7)
    main, arm = heard.batteries["main"], heard.batteries["arm"]
    assert (main.charge.value, main.volts.value, main.draining, main.taken_ns) == (0.7, 24.1, True, NOW)
    assert (arm.charge.value, arm.volts.value, arm.draining) == (None, 12.0, False)
    assert (heard.reports, heard.refused) == (5, 0)


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b'{"map": {"built_ns": 1}, "map": {"built_ns": 2}}', "not JSON"),
        (b"[" * 4000, "not JSON"),
        (b" " * (LARGEST_DATAGRAM + 1), "longer than 4096 bytes"),
        ([], "takes one or more of"),
        ({}, "takes one or more of"),
        ({"pose": {"captured_ns": 1, "spread_m": 1}, "more": 1}, "takes one or more of"),
        ({"pose": None}, "`pose` takes"),
        ({"pose": {"captured_ns": 1}}, "`pose` takes"),
        ({"pose": {"captured_ns": 1.0, "spread_m": 1}}, "nanoseconds of CLOCK_MONOTONIC"),
        ({"pose": {"captured_ns": True, "spread_m": 1}}, "nanoseconds of CLOCK_MONOTONIC"),
        ({"pose": {"captured_ns": -1, "spread_m": 1}}, "nanoseconds of CLOCK_MONOTONIC"),
        ({"pose": {"captured_ns": 1, "spread_m": -1}}, "must not be negative"),
        ({"pose": {"captured_ns": 1, "spread_m": "1"}}, "must be a number"),
        (b'{"pose": {"captured_ns": 1, "spread_m": 1e999}}', "must be a number"),
        ({"pose": {"captured_ns": NOW + AHEAD_NS + 1, "spread_m": 1}}, "lies ahead"),
        ({"map": {"built_ns": 1790000000000000000}}, "lies ahead"),
        ({"map": {"built_ns": 1, "x": 1}}, "`map` takes"),
        ({"battery": {"name": "main"}}, "`charge`, `volts` or both"),
        ({"battery": {"name": "other", "charge": 1}}, "arm, main"),
        ({"battery": {"name": 3, "charge": 1}}, "arm, main"),
        ({"battery": {"name": "main", "charge": 1.1}}, "between 0 and 1"),
        ({"battery": {"name": "main", "charge": 70}}, "between 0 and 1"),
        ({"battery": {"name": "main", "volts": -1}}, "between 0 and 1000"),
        ({"battery": {"name": "main", "charge": 1, "charging": 1}}, "must be true or false"),
    ],
)
def test_what_is_no_report_is_counted_and_answered_in_one_sentence(
    report: Any, sentence: str, adapters: AdapterSocket, robot: socket.socket, tmp_path: Path
) -> None:
    send(robot, tmp_path, report)
    adapters.listen()
    answer = json.loads(robot.recv(4096))
    assert list(answer) == ["refused"]
    assert sentence in answer["refused"]
    assert (adapters.heard.reports, adapters.heard.refused) == (0, 1)
    assert (adapters.heard.pose, adapters.heard.map_built_ns, adapters.heard.batteries) == (None, None, {})


def test_one_without_an_address_is_counted_too(adapters: AdapterSocket, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.sendto(b"?", str(tmp_path / "adapters.sock"))
    adapters.listen()
    assert adapters.heard.refused == 1


def test_one_that_does_not_take_its_answer_keeps_nobody_waiting(
    adapters: AdapterSocket, robot: socket.socket, tmp_path: Path
) -> None:
    robot.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    for _ in range(300):
        send(robot, tmp_path, b"?")
        adapters.listen()
    assert adapters.heard.refused == 300


def test_a_flood_is_taken_a_few_at_a_time(adapters: AdapterSocket, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.settimeout(0)
        sent = 0
        try:
            while sent < 10_000:
                end.sendto(b"?", str(tmp_path / "adapters.sock"))
                sent += 1
        except BlockingIOError:
            pass
    adapters.listen()
    assert adapters.heard.refused == min(sent, MOST_AT_ONCE)


def test_the_socket_is_its_owners_alone_and_one_monitor_listens(
    adapters: AdapterSocket, tmp_path: Path
) -> None:
    path = tmp_path / "adapters.sock"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(ConfigError, match="another monitor listens"):
        AdapterSocket(path, KNOWN, FixedClock())
    adapters.close()
    assert not path.exists()


def test_a_socket_that_a_dead_monitor_left_is_replaced_and_a_long_path_is_none_too_many(
    tmp_path: Path,
) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    path = folder / "adapters.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
        link = os.open(folder, os.O_RDONLY)
        dead.bind(f"/proc/self/fd/{link}/adapters.sock")
        os.close(link)
    made = AdapterSocket(path, KNOWN, FixedClock())
    made.close()
    with pytest.raises(ConfigError, match="cannot listen"):
        AdapterSocket(tmp_path / "absent" / "adapters.sock", KNOWN, FixedClock())


@given(st.binary(max_size=200))
def test_no_bytes_are_more_than_refused(data: bytes) -> None:
    with pytest.raises(BadReport):
        read_report(data, KNOWN, NOW)


_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.dictionaries(
        st.sampled_from(["captured_ns", "spread_m", "built_ns", "name", "charge", "volts"]), inner
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["pose", "map", "battery"]), _VALUES))
def test_no_document_is_more_than_refused(document: dict[str, Any]) -> None:
    try:
        report = read_report(json.dumps(document).encode(), KNOWN, NOW_LATE)
    except BadReport:
        return
    assert report.pose is not None or report.map_built_ns is not None or report.battery is not None


NOW_LATE = 1_000 * NS_PER_S
