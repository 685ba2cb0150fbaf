"""The embedded broker against real NATS: reload, revocation, kill -9 of child and of parent."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from edge_runtime.clock import SystemClock
from fleet_server.broker.broker import BrokerError, BrokerState
from fleet_server.broker.embedded import EmbeddedBroker, EmbeddedSettings
from sim.ports import free_port
from tests.rigs.brokers import Recorder, accepts, wait_until
from tests.rigs.pki import Credentials
from tests.rigs.site import Site, connect_to, user_of


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def broker(site: Site) -> Iterator[EmbeddedBroker]:
    broker = EmbeddedBroker(settings(site), SystemClock())
    yield broker
    broker.stop()


def settings(site: Site) -> EmbeddedSettings:
    return EmbeddedSettings(
        directory=site.root / "broker",
        server=site.server,
        ingest=site.ingest,
        authority=site.authority_file,
        host="127.0.0.1",
        port=0,
        max_store_bytes=64 << 20,
        ready_s=20,
    )


def connect(broker: EmbeddedBroker, party: Credentials, port: int | None = None, **more: object) -> Recorder:
    return connect_to(port or broker.port, party, **more)


def close(*recorders: Recorder) -> None:
    for recorder in recorders:
        recorder.close()


def refused(broker: EmbeddedBroker, party: Credentials) -> bool:
    """Whether the broker does not take a new connection of this party."""
    return not accepts(broker.port, party)


def test_users_come_and_go_without_a_restart_and_a_revoked_one_is_cut_at_once(
    site: Site, broker: EmbeddedBroker
) -> None:
    one, two = site.device("dev-1"), site.device("dev-2")
    broker.start([site.ingest_user, user_of(one)])
    pid = broker.status().pid
    first = connect(broker, one)
    assert wait_until(lambda: first.accepted is True)
    assert refused(broker, two)
    broker.apply([site.ingest_user, user_of(one), user_of(two)])
    second = connect(broker, two)
    assert wait_until(lambda: second.accepted is True)
    broker.apply([site.ingest_user, user_of(two)])
    assert wait_until(lambda: bool(first.reasons), 2), "the revoked device is still connected"
    assert refused(broker, one)
    assert second.reasons == []
    assert second.publish("fleet/v1/dev-2/up/health", b"x")
    assert broker.status().pid == pid
    close(first, second)


def test_an_old_certificate_of_the_same_device_is_another_user(site: Site, broker: EmbeddedBroker) -> None:
    old, new = site.device("dev-1"), site.device("dev-1")
    broker.start([site.ingest_user, user_of(old)])
    before = connect(broker, old)
    assert wait_until(lambda: before.accepted is True)
    broker.apply([site.ingest_user, user_of(new)])
    assert wait_until(lambda: bool(before.reasons), 2)
    assert refused(broker, old)
    after = connect(broker, new)
    assert wait_until(lambda: after.accepted is True)
    close(before, after)


def test_kill_9_of_the_child_is_survived_with_what_it_acknowledged(
    site: Site, broker: EmbeddedBroker
) -> None:
    one = site.device("dev-1")
    broker.start([site.ingest_user, user_of(one)])
    device = connect(broker, one, clean_session=False)
    assert device.subscribe("fleet/v1/dev-1/down/#")
    close(device)
    server = connect(broker, site.ingest_credentials)
    for number in range(20):
        assert server.publish("fleet/v1/dev-1/down/cmd", b"%d" % number)
    pid = broker.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: broker.status().state is not BrokerState.RUNNING)
    assert wait_until(lambda: broker.status().state is BrokerState.RUNNING, 15)
    assert broker.status().restarts == 1
    device = connect(broker, one, clean_session=False)
    assert wait_until(lambda: len(device.messages) >= 20, 10)
    assert [payload for _, payload in device.messages] == [b"%d" % number for number in range(20)]
    close(device, server)


def test_one_that_hangs_is_started_anew(site: Site) -> None:
    broker = EmbeddedBroker(replace(settings(site), probe_s=0.05), SystemClock())
    try:
        broker.start([site.ingest_user])
        wait_until(lambda: False, 0.5)
        assert broker.status().restarts == 0  # it answers, so it is left alone
        pid = broker.status().pid or 0
        os.kill(pid, signal.SIGSTOP)
        assert wait_until(lambda: "did not answer" in broker.status().trouble, 15)
        assert wait_until(lambda: broker.status().state is BrokerState.RUNNING, 15)
        assert not psutil.pid_exists(pid)
    finally:
        broker.stop()


def test_one_that_had_served_is_not_waited_for_as_long_as_one_that_cannot_start(site: Site) -> None:
    waits = replace(settings(site), first_pause_s=60.0, longest_pause_s=60.0, served_pause_s=0.05)
    broker = EmbeddedBroker(waits, SystemClock())
    try:
        broker.start([site.ingest_user])
        for _ in range(2):
            os.kill(broker.status().pid or 0, signal.SIGKILL)
            assert wait_until(lambda: broker.status().state is not BrokerState.RUNNING)
            assert wait_until(lambda: broker.status().state is BrokerState.RUNNING, 30)
    finally:
        broker.stop()


def test_a_change_while_it_is_down_is_obeyed_when_it_comes_back(site: Site) -> None:
    one, two = site.device("dev-1"), site.device("dev-2")
    broker = EmbeddedBroker(replace(settings(site), first_pause_s=1.0), SystemClock())
    try:
        broker.start([site.ingest_user, user_of(one), user_of(two)])
        os.kill(broker.status().pid or 0, signal.SIGKILL)
        assert wait_until(lambda: broker.status().state is BrokerState.WAITING)
        with pytest.raises(BrokerError, match="told when it starts"):
            broker.apply([site.ingest_user, user_of(two)])
        assert wait_until(lambda: broker.status().state is BrokerState.RUNNING, 15)
        assert refused(broker, one)
        assert not refused(broker, two)
    finally:
        broker.stop()


def test_a_reload_that_does_not_work_becomes_a_restart(site: Site, broker: EmbeddedBroker) -> None:
    """NATS refuses to reload what it cannot change in place; the revocation is obeyed all the same."""
    one = site.device("dev-1")
    broker.start([site.ingest_user, user_of(one)])
    connection = connect(broker, one)
    assert wait_until(lambda: connection.accepted is True)
    pid = broker.status().pid
    broker._listen = replace(broker._listen, port=broker.port, websocket_port=free_port())
    broker.apply([site.ingest_user])
    assert broker.status().pid not in (pid, None)
    assert wait_until(lambda: bool(connection.reasons))
    assert refused(broker, one)
    close(connection)


def test_nobody_speaks_the_brokers_own_protocol(site: Site, broker: EmbeddedBroker) -> None:
    one = site.device("dev-1")
    broker.start([site.ingest_user, user_of(one)])
    pid = broker.status().pid
    listening = [
        found.laddr[1]
        for found in psutil.Process(pid).net_connections()
        if found.status == psutil.CONN_LISTEN and found.laddr[1] != broker.port
    ]
    assert len(listening) == 1
    for party in (one, site.ingest_credentials):
        with socket.create_connection(("127.0.0.1", listening[0]), 5) as plain:
            assert plain.recv(4096).startswith(b"INFO ")
            with party.client_context().wrap_socket(plain, server_hostname="localhost") as connection:
                connection.sendall(
                    b'CONNECT {"verbose":true,"tls_required":true}\r\nSUB $MQTT.> 1\r\nPING\r\n'
                )
                said = b""
                while chunk := connection.recv(4096):
                    said += chunk
        assert b"Authorization Violation" in said
        assert b"+OK" not in said


def test_websockets_take_the_same_certificates(site: Site) -> None:
    one = site.device("dev-1")
    broker = EmbeddedBroker(replace(settings(site), websocket_port=0), SystemClock())
    try:
        broker.start([site.ingest_user, user_of(one)])
        port = broker.websocket_port
        found = connect(broker, one, port, transport="websockets")
        assert wait_until(lambda: found.accepted is True)
        assert found.subscribe("fleet/v1/dev-1/down/#")
        assert not found.subscribe("fleet/v1/dev-2/down/#")
        broker.apply([site.ingest_user])
        assert wait_until(lambda: bool(found.reasons))
        close(found)
    finally:
        broker.stop()


def test_a_taken_port_is_said_in_one_sentence(site: Site) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        broker = EmbeddedBroker(
            replace(settings(site), port=taken.getsockname()[1], first_pause_s=0.01), SystemClock()
        )
        with pytest.raises(BrokerError, match=r"did not start: .*address already in use"):
            broker.start([site.ingest_user])
    assert broker.status().state is BrokerState.STOPPED


def test_stop_leaves_no_process_and_start_works_again(site: Site, broker: EmbeddedBroker) -> None:
    broker.start([site.ingest_user])
    pid = broker.status().pid
    assert pid is not None
    with pytest.raises(BrokerError, match="started already"):
        broker.start([site.ingest_user])
    broker.stop()
    assert not psutil.pid_exists(pid)
    broker.stop()
    broker.start([site.ingest_user])
    assert broker.status().state is BrokerState.RUNNING


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_orphan_is_left_when_the_server_dies(site: Site, number: signal.Signals) -> None:
    program = textwrap.dedent(
        f"""
        import sys, time
        from pathlib import Path
        from edge_runtime.clock import SystemClock
        from fleet_server.authority import CertificateFiles
        from fleet_server.broker.embedded import EmbeddedBroker, EmbeddedSettings
        from fleet_server.broker.users import BrokerUser
        root = Path({str(site.root)!r})
        broker = EmbeddedBroker(EmbeddedSettings(
            directory=root / "broker", authority=root / "authority/ca.pem", host="127.0.0.1", port=0,
            server=CertificateFiles(root / "tls/server.key", root / "tls/server.pem"),
            ingest=CertificateFiles(root / "tls/ingest.key", root / "tls/ingest.pem"),
        ), SystemClock())
        broker.start([BrokerUser("fleet-ingest", {site.ingest_user.serial!r})])
        print(broker.status().pid, flush=True)
        time.sleep(60)
        """
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        assert psutil.Process(pid).name() == "nats-server"
        server.send_signal(number)
        server.wait(10)
    assert wait_until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie", 10)


@pytest.mark.trial
def test_twenty_kills_at_random_moments_lose_nothing_acknowledged(site: Site) -> None:
    one = site.device("dev-1")
    broker = EmbeddedBroker(replace(settings(site), first_pause_s=0.05, settled_s=0), SystemClock())
    try:
        broker.start([site.ingest_user, user_of(one)])
        device = connect(broker, one, clean_session=False)
        assert device.subscribe("fleet/v1/dev-1/down/#")
        close(device)
        acknowledged: list[bytes] = []
        for round_ in range(20):
            server = connect(broker, site.ingest_credentials)
            until = time.monotonic() + 0.05 * (1 + round_ % 7)
            number = 0
            while time.monotonic() < until:
                payload = b"%d-%d" % (round_, number)
                if server.publish("fleet/v1/dev-1/down/cmd", payload, timeout=1):
                    acknowledged.append(payload)
                number += 1
            os.kill(broker.status().pid or 0, signal.SIGKILL)
            close(server)
            assert wait_until(lambda: broker.status().state is not BrokerState.RUNNING)
            assert wait_until(lambda: broker.status().state is BrokerState.RUNNING, 30)
        device = connect(broker, one, clean_session=False)
        assert wait_until(lambda: set(acknowledged) <= {payload for _, payload in device.messages}, 30)
        close(device)
    finally:
        broker.stop()
