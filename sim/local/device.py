"""The device of rig `local`: its real processes, started, killed, stopped, asked, and given events."""

import contextlib
import os
import signal
import subprocess
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from edge_runtime.cli.guard_keys import key_name, new_key, read_key, signed_record
from edge_runtime.cli.guard_orders import Guard, Refused
from edge_runtime.clock import SystemClock
from edge_runtime.faults import orders_file, read_orders
from edge_runtime.guard.client import NoGuard
from edge_runtime.node.camera_board import read_board
from edge_runtime.node.workers import ask_guard
from edge_runtime.outbox import OutboxClient, OutboxStatus, OutboxUnavailable, Submission
from edge_runtime.state import StateDirectory
from sim.local.device_file import DEVICE
from sim.local.small_disk import fill_up, seen_from_outside, with_small_disk
from sim.namespace import Namespace
from sim.ports import free_port
from sim.process import RoadError, bound
from sim.road import ask, command

METRICS_S, END_S, DISK_MIB = 0.3, 30.0, 24


class Device:
    """`edge-runtime run`.

    Args:
        folder: where its configuration `device.yaml`, its log, and the key `ada.key` lie.

    Attributes:
        state: its state directory.
        variables: set in its environment beside ours.
        small_disk: its outbox lies on a file system of its own, which ends with its processes.
        namespace: its own network; None where it has the machine's.
    """

    def __init__(self, folder: Path) -> None:
        self._config, self._log, self._key = folder / "device.yaml", folder / "device.log", folder / "ada.key"
        self.state = StateDirectory(folder / "state")
        self.variables: Mapping[str, str] = {}
        self.small_disk = False
        self.namespace: Namespace | None = None
        self._filler: Path | None = None
        self._clock, self._metrics = SystemClock(), free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        words = ("run", f"--metrics=127.0.0.1:{self._metrics}", str(self._config))
        arguments = command("edge-runtime", *words)
        if self.namespace is not None:
            arguments = self.namespace.within(arguments)
        arguments = bound(arguments)
        if self.small_disk:
            arguments = with_small_disk(self.state.outbox, DISK_MIB, arguments)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own commands
                arguments,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **self.variables},
            )

    def end(self) -> None:
        """End it, and whatever of it is left."""
        process, self._process = self._process, None
        if process is None:
            self.state.motion_socket.unlink(missing_ok=True)  # that ends a motion gate whose guard is gone
            return
        left = [row["pid"] for row in (self.status() or {}).get("workers", ()) if row["pid"]]
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pid in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()

    # ---- what a person at the device does, by the functions of the commands: each would be a process

    def new_key(self) -> str:
        """Make the key of whoever acknowledges; its public half in hex."""
        return new_key(self._key, None)

    def commission(self, status: Mapping[str, Any]) -> None:
        """The next step towards a body that may move: look at what is latched and sign that it is safe, or arm it.

        Args:
            status: of the guard.
        """
        guard, latch = Guard(self.state.guard_socket, self._clock), status["latch"]
        with contextlib.suppress(
            NoGuard, Refused
        ):  # what led to it is not clear for long enough: asked again
            if latch is not None and not status["not_evaluated"]:
                key = read_key(self._key, None)
                guard.acknowledge(
                    signed_record(key, key_name(None, self._key), latch["id"], DEVICE, "looked at it")
                )
            elif status["state"] == "STANDBY":
                guard.order("arm")

    def order(self, unit: str, kind: str, seconds: float, amount: float | None) -> int:
        """Inject a fault; when it began, CLOCK_MONOTONIC.

        Raises:
            RoadError: it was refused.
        """
        words = ["fault", "inject", str(self._config), unit, kind, "--for", str(seconds), "--by", "scenario"]
        said = ask("edge-runtime", *words, *([] if amount is None else ["--amount", str(amount)]))
        key = said.partition(" ")[0]
        begins = [one.begins_ns for one in read_orders(orders_file(self.state)) if one.id == key]
        if not begins:
            raise RoadError(f"the order is not among those of the device: {said.strip()}")
        return begins[0]

    # ---- what befalls it

    def kill_guard(self) -> None:
        """SIGKILL; the others end with it.

        Raises:
            RoadError: it does not run.
        """
        self.signal_guard(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
        self._process = None

    def signal_guard(self, number: signal.Signals) -> None:
        """To the guard alone.

        Raises:
            RoadError: it does not run.
        """
        if self._process is None or self._process.poll() is not None:
            raise RoadError(f"the guard does not run: {self.last_words()}")
        self._process.send_signal(number)

    def signal_worker(self, name: str, number: signal.Signals) -> None:
        """To one of the device's processes.

        Raises:
            RoadError: it does not run, or the guard does not answer.
        """
        try:
            os.kill(self.pid_of(name), number)
        except ProcessLookupError:
            raise RoadError(f"{name} had just ended by itself: {self.last_words()}") from None

    def pid_of(self, name: str) -> int:
        """Of one of the device's processes.

        Raises:
            RoadError: it does not run, or the guard does not answer.
        """
        rows = (self.status() or {}).get("workers", ())
        pid = next((row["pid"] for row in rows if row["name"] == name), None)
        if pid is None:
            raise RoadError(f"{name} does not run, or the guard does not answer: {self.last_words()}")
        return int(pid)

    def fill_disk(self) -> None:
        """Nothing more fits on the small disk.

        Raises:
            RoadError: it does not run.
        """
        if self._process is None:
            raise RoadError(f"the guard does not run: {self.last_words()}")
        self._filler = fill_up(seen_from_outside(self._process.pid, self.state.outbox))

    def free_disk(self) -> None:
        """There is room again."""
        if self._filler is not None:
            self._filler.unlink(missing_ok=True)

    # ---- what it says

    def status(self) -> dict[str, Any] | None:
        """Of the guard; None where it does not answer."""
        with self.beside():  # the answer goes to an abstract address, and those are a namespace's own
            return ask_guard(self.state)

    def last_words(self) -> str:
        """The end of what it said."""
        log = self._log
        return log.read_text(encoding="utf-8", errors="replace")[-800:] if log.exists() else ""

    def frame_share(self) -> float | None:
        """Share of the frames that heat lets perception look at; None where nobody says so."""
        url = f"http://127.0.0.1:{self._metrics}/metrics"
        try:
            with self.beside(), urllib.request.urlopen(url, timeout=METRICS_S) as answer:
                lines = answer.read().decode().splitlines()
        except (OSError, ValueError):
            return None
        found = [float(line.split()[1]) for line in lines if line.startswith("edge_frame_share ")]
        return found[0] if found and found[0] > 0 else None  # 0 is a governor that has said nothing

    def beside(self) -> contextlib.AbstractContextManager[None]:
        """Where its loopback is."""
        return contextlib.nullcontext() if self.namespace is None else self.namespace.inside()

    def evaluated(self) -> int | None:
        """Frames that perception has looked at since it began, as it writes it down; None where nobody knows."""
        return next((camera.evaluated for camera in read_board(self.state, self._clock)), None)

    def outbox(self) -> OutboxStatus | None:
        """How the outbox stands; None while it is away."""
        client = OutboxClient(self.state.outbox_socket, self._clock, 2.0)
        try:
            return client.status()
        except OutboxUnavailable:
            return None
        finally:
            client.close()

    def put(self, submissions: list[Submission]) -> tuple[set[bytes], int]:
        """Hand events to the outbox; the keys that it accepted, and how many it refused."""
        client = OutboxClient(self.state.outbox_socket, self._clock, 2.0)
        try:
            results = client.put(submissions)
        except OutboxUnavailable:
            return set(), 0
        finally:
            client.close()
        pairs = list(zip(submissions, results, strict=True))
        accepted = {one.key for one, result in pairs if result.accepted}
        return accepted, len(pairs) - len(accepted)
