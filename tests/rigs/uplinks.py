"""Uplinks for tests: in a thread over a real outbox, or as processes that can be killed."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edge_runtime.clock import NS_PER_MS, NS_PER_S, SystemClock
from edge_runtime.identity.files import AUTHORITY, CERTIFICATE, KEY, IdentityRecord, save
from edge_runtime.outbox import Outbox, OutboxClient, OutboxSettings, Submission
from edge_runtime.protocol import DecisionKind, uuid7
from edge_runtime.protocol.enrolment import BrokerAddress
from edge_runtime.state import StateDirectory
from edge_runtime.uplink import Hands, LinkIdentity, Uplink, UplinkSettings
from tests.rigs.pki import Credentials

QUICK: dict[str, Any] = {
    "ramp": False,
    "base_s": 0.1,
    "cap_s": 1.0,
    "short_s": 0.05,
    "stable_s": 5.0,
    "sync_retry_s": 0.3,
    "sync_cap_s": 1.0,
    "report_period_s": 0.2,
    "outbox_pause_s": 0.1,
    "retry_first_s": 0.25,
    "silence_s": 4.0,
    "state_retry_first_s": 0.5,
    "connect_timeout_s": 3.0,
}
"""Waits for a machine that nobody shares."""


def submission(severity: int = 1, *, ttl_s: float = 3600.0, size: int = 300, **changes: Any) -> Submission:
    """An event that may go. Its body is no event: who only carries it does not look."""
    clock = SystemClock()
    key = uuid.UUID(uuid7(clock.wall().unix_ns)).bytes
    fields: dict[str, Any] = {
        "key": key,
        "kind": DecisionKind.SEND,
        "severity": severity,
        "ttl_ns": int(ttl_s * NS_PER_S),
        "body": key + os.urandom(16) + b"e" * (size - 32),
    }
    return Submission(**{**fields, **changes})


def submissions(count: int, **changes: Any) -> list[Submission]:
    """So many events of mixed severity."""
    return [submission(number % 4, **changes) for number in range(count)]


def identity(party: Credentials, host: str, port: int, **changes: Any) -> LinkIdentity:
    """Of a party of a test's authority, talking to a broker."""
    fields: dict[str, Any] = {
        "device": party.name,
        "broker": BrokerAddress(host=host, port=port),
        "server_url": None,
        "tls": party.client_context,
    }
    return LinkIdentity(**{**fields, **changes})


def enrol_by_hand(state: StateDirectory, party: Credentials, broker: BrokerAddress, **changes: Any) -> None:
    """Write what an enrolment would have written."""
    now_ms = SystemClock().wall().unix_ns // NS_PER_MS
    fields: dict[str, Any] = {
        "device": party.name,
        "client_id": f"{party.name}-5e1f",
        "server_url": "https://localhost:1",
        "broker": broker,
        "not_before_ms": now_ms - 60_000,
        "not_after_ms": now_ms + 86_400_000,
        "renew_at_ms": now_ms + 43_200_000,
    }
    files = {KEY: party.key, CERTIFICATE: party.certificate, AUTHORITY: party.authority}
    save(
        state,
        {name: path.read_bytes() for name, path in files.items()},
        IdentityRecord(**{**fields, **changes}),
    )


class ThreadedUplink:
    """An outbox and an uplink in this process; `with` starts and ends both."""

    def __init__(self, folder: Path, who: LinkIdentity, hands: Hands | None = None, **settings: Any) -> None:
        self.clock = SystemClock()
        self.state = StateDirectory(folder / "state").ensure()
        self.outbox = Outbox(self.state.outbox, OutboxSettings(), self.clock, evidence=self.state.evidence)
        directory = self.state.path / "uplink"
        directory.mkdir(exist_ok=True)
        self.uplink = Uplink(
            who,
            UplinkSettings(**{**QUICK, **settings}),
            outbox=self.outbox,
            watched=self.outbox,
            directory=directory,
            updates=self.state.updates,
            hands=hands or Hands(),
            clock=self.clock,
            rng=random.Random(1),
        )
        self._thread = threading.Thread(target=self.uplink.run, daemon=True)

    def __enter__(self) -> "ThreadedUplink":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.outbox.close()

    def stop(self) -> None:
        """A clean end of the uplink."""
        self.uplink.stop()
        if self._thread.is_alive():
            self._thread.join(15)
        assert not self._thread.is_alive(), "the uplink did not end"

    def put(self, events: Sequence[Submission]) -> list[bytes]:
        """Enqueue; the keys."""
        for start in range(0, len(events), 256):
            assert all(result.accepted for result in self.outbox.put(events[start : start + 256]))
        return [event.key for event in events]


class DeviceProcesses:
    """An outbox and an uplink as processes of their own, with one state directory."""

    def __init__(self, folder: Path, party: Credentials, host: str, port: int, **settings: Any) -> None:
        self.state = StateDirectory(folder / "state").ensure()
        self.client = OutboxClient(self.state.outbox_socket, SystemClock())
        self._settings = json.dumps({**QUICK, **settings})
        enrol_by_hand(self.state, party, BrokerAddress(host=host, port=port))
        self._logs = folder
        self.outbox: subprocess.Popen[bytes] | None = None
        self.uplink: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "DeviceProcesses":
        self.start_outbox()
        self.start_uplink()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End what still runs."""
        self.client.close()
        for process in (self.uplink, self.outbox):
            if process is not None and process.poll() is None:
                process.kill()
            if process is not None:
                process.wait()
                assert process.stdout is not None
                process.stdout.close()

    @property
    def log(self) -> str:
        """What the uplink wrote."""
        return (self._logs / "uplink.log").read_text()

    def start_outbox(self) -> None:
        self.outbox = self._start("outbox", ["edge_runtime.outbox"])

    def start_uplink(self) -> None:
        self.uplink = self._start("uplink", ["edge_runtime.uplink", "--settings", self._settings])

    def kill_outbox(self) -> None:
        self._kill(self.outbox)

    def kill_uplink(self) -> None:
        self._kill(self.uplink)

    def terminate_uplink(self) -> int:
        """SIGTERM; the exit code."""
        assert self.uplink is not None
        self.uplink.send_signal(signal.SIGTERM)
        code = self.uplink.wait(10)
        assert self.uplink.stdout is not None
        self.uplink.stdout.close()
        return code

    def put(self, events: Sequence[Submission]) -> list[bytes]:
        """Enqueue over the socket; the keys."""
        for start in range(0, len(events), 256):
            assert all(result.accepted for result in self.client.put(events[start : start + 256]))
        return [event.key for event in events]

    def _start(self, name: str, module: list[str]) -> "subprocess.Popen[bytes]":
        with (self._logs / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *module, "--state", str(self.state.path)],
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=Path(__file__).resolve().parent.parent.parent,
            )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n", (self._logs / f"{name}.log").read_text()
        return process

    def _kill(self, process: "subprocess.Popen[bytes] | None") -> None:
        assert process is not None
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
