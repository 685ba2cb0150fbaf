"""The outbox's process: `python -m edge_runtime.outbox --state DIR [--settings JSON]`.

Prints `ready` once it listens. Under a guard it beats instead, after each look at the queue; the writer answers
that look, so that one which hangs in the disk is seen. SIGTERM and SIGINT end it cleanly; SIGKILL loses nothing
that was acknowledged.
Exit codes: 0 ended cleanly, 1 it could not own or serve the outbox, 2 its arguments cannot be used.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

from pydantic import ValidationError

from edge_runtime.clock import NS_PER_S, SystemClock
from edge_runtime.collector import collect_rarely
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.guard.conditions import Condition
from edge_runtime.guard.page import SlotWriter
from edge_runtime.lifeline import die_with_parent, leave_no_core
from edge_runtime.outbox.access import keep_limits
from edge_runtime.outbox.outbox import Outbox
from edge_runtime.outbox.records import OutboxError
from edge_runtime.outbox.server import OutboxServer
from edge_runtime.outbox.settings import OutboxSettings
from edge_runtime.protocol.wire import places
from edge_runtime.state import StateDirectory
from edge_runtime.telemetry import configure_logging, get_logger

NEAR_FULL = 0.9
"""Share of the quota from which on the queue counts as nearly full."""

BEAT_S = 0.5
DEADLINE_S = 10.0
"""Cards and eMMC stall for seconds while they tidy up; a writer that is away for longer hangs."""

_SIGNALS = {signal.SIGTERM, signal.SIGINT}


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal asks for the end; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m edge_runtime.outbox", description="The outbox's process."
    )
    parser.add_argument("--state", type=Path, help="state directory")
    parser.add_argument("--settings", default="{}", help="limits as JSON")
    parser.add_argument("--with-parent", action="store_true", help="end when the parent process ends")
    options = parser.parse_args(arguments)
    leave_no_core()
    if options.with_parent:
        die_with_parent()
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # threads inherit it; the wait below takes the signal
    configure_logging("info")
    try:
        settings = OutboxSettings.model_validate_json(options.settings)
    except ValidationError as error:
        return _fail(f"--settings: {places(error)}", 2)
    try:
        return _serve(StateDirectory.find(options.state).ensure(), settings)
    except EdgeRuntimeError as error:
        return _fail(str(error), error.exit_code)


def _serve(state: StateDirectory, settings: OutboxSettings) -> int:
    clock = SystemClock()
    slot = SlotWriter.from_environment()
    outbox = Outbox(state.outbox, settings, clock, evidence=state.evidence)
    try:
        server = OutboxServer(outbox, state.outbox_socket, clock, settings.max_connections)
    except EdgeRuntimeError:
        outbox.close()
        raise
    keep_limits(state, settings)
    server.start()
    status = outbox.status()
    get_logger().info("outbox ready", state=status.state.value, queued=status.ledger.queued)
    for sentence in status.sentences:
        get_logger().warning("outbox not healthy", why=sentence)
    collect_rarely()
    if slot is None:
        _say_ready()
    while not _asked_to_end():
        if slot is not None:
            _beat(slot, outbox, clock)
    outbox.drain()
    server.stop()
    outbox.close()
    return 0


def _asked_to_end() -> bool:
    """Whether a signal to end came within `BEAT_S`.

    A process that was stopped for longer, and goes on, gets a record from `sigtimedwait` that nobody filled in.
    """
    found = signal.sigtimedwait(_SIGNALS, BEAT_S)
    return found is not None and found.si_signo in _SIGNALS


def _beat(slot: SlotWriter, outbox: Outbox, clock: SystemClock) -> None:
    near_full = Condition.QUEUE_NEAR_FULL.mask
    try:
        evaluated, tripped = near_full, near_full if outbox.fill() >= NEAR_FULL else 0
    except OutboxError:  # it is alive and cannot say: what nobody evaluated counts as tripped
        evaluated = tripped = 0
    slot.finished("look", None, clock.monotonic_ns() + int(DEADLINE_S * NS_PER_S), evaluated, tripped)


def _say_ready() -> None:
    try:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
    except OSError:  # nobody listens: the device's parent may have died, and the work goes on
        sys.stdout = open(os.devnull, "w", encoding="ascii")  # noqa: SIM115, PTH123 - for the rest of the process


def _fail(text: str, code: int) -> int:
    sys.stderr.write(f"error: {text}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
