"""The uplink as a process of its own: ready line, clean end on SIGTERM, exit codes.

Exit codes: 0 asked to end, 1 only a new process helps, 2 it cannot be used as it is set up.
"""

import contextlib
import random
import signal
import socket
import sys
import threading

from edge_runtime.clock import Clock, SystemClock
from edge_runtime.collector import collect_rarely
from edge_runtime.errors import ConfigError
from edge_runtime.outbox import OutboxClient
from edge_runtime.state import StateDirectory
from edge_runtime.telemetry import get_logger
from edge_runtime.uplink.engine import Uplink
from edge_runtime.uplink.evidence import EvidenceUploader
from edge_runtime.uplink.line import TooManyHanging
from edge_runtime.uplink.ports import Hands, LinkIdentity
from edge_runtime.uplink.settings import UplinkSettings

_CALL_S = 5.0
_STOPPING = (signal.SIGTERM, signal.SIGINT)


def run(
    state: StateDirectory,
    settings: UplinkSettings,
    identity: LinkIdentity,
    hands: Hands | None = None,
    clock: Clock | None = None,
    *,
    announce: bool = True,
) -> int:
    """Work until SIGTERM or SIGINT. Call it from the main thread, before other threads are started.

    Args:
        state: the device's state directory; made where it is missing.
        settings: of the uplink.
        identity: who this device is.
        hands: what the composition hands in.
        clock: time.
        announce: print the ready line.

    Returns:
        The process's exit code.
    """
    told = _told_by_signals()
    clock = clock or SystemClock()
    directory = state.ensure().uplink
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{directory}: {error.strerror}") from None

    def outbox() -> OutboxClient:
        return OutboxClient(state.outbox_socket, clock, _CALL_S)

    rng = random.SystemRandom()
    uplink = Uplink(
        identity,
        settings,
        outbox=outbox(),
        watched=outbox(),
        directory=directory,
        updates=state.updates,
        hands=hands or Hands(),
        clock=clock,
        rng=rng,
    )
    evidence = EvidenceUploader(
        lambda: uplink.identity,
        settings,
        outbox=outbox(),
        budget=uplink.budget,
        online=lambda: uplink.online,
        clock=clock,
        rng=rng,
    )
    threading.Thread(target=_stop_when_told, args=(uplink, told), name="uplink-signals", daemon=True).start()
    evidence.start()
    collect_rarely()
    if announce:
        _say_ready()
    try:
        uplink.run()
    except TooManyHanging:
        get_logger().error("connects hang in the system; ending so that a new process can begin")
        return 1
    evidence.stop(max(0.1, settings.stop_s / 4))
    return 0


def _say_ready() -> None:
    with contextlib.suppress(OSError):  # nobody listens; the work goes on
        sys.stdout.write("ready\n")
        sys.stdout.flush()


def _told_by_signals() -> socket.socket:
    """A socket that has something to read once SIGTERM or SIGINT came.

    Blocking the signals and waiting for them would not do: threads that a library started while it was imported
    (NumPy's) have them unblocked, and the kernel ends the process through one of those.
    """
    told, tell = socket.socketpair()
    tell.settimeout(0)
    signal.set_wakeup_fd(tell.detach(), warn_on_full_buffer=False)
    for number in _STOPPING:
        signal.signal(number, _do_nothing)
    return told


def _do_nothing(_number: int, _frame: object) -> None:
    """The wake-up descriptor was written when the signal came; without a handler the process would end."""


def _stop_when_told(uplink: Uplink, told: socket.socket) -> None:
    told.recv(1)
    uplink.stop()
