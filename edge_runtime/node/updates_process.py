"""The updates' process: `python -m edge_runtime.node.updates_process --config FILE [--state DIR]`.

It takes releases that the fleet assigns, and never touches a frame: perception loads and runs what it is told.
Under a guard it beats after each turn of its loop, and until the device is enrolled it waits for that. It may be
killed at any time; the next one takes up what this one left.
Exit codes: 0 ended cleanly, 1 it could not do its work, 2 its arguments or the configuration cannot be used.
"""

import argparse
import contextlib
import os
import select
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from edge_runtime.clock import NS_PER_S, Clock, SystemClock
from edge_runtime.config import LoadedConfig, load_config
from edge_runtime.errors import ConfigError, EdgeRuntimeError
from edge_runtime.guard.page import SlotWriter
from edge_runtime.identity import Identity, IdentityError
from edge_runtime.lifeline import die_with_parent, leave_no_core
from edge_runtime.node.ending import asked_to_end
from edge_runtime.node.places import state_of
from edge_runtime.node.updates_parts import Assembly, assembled, key_sha256, parts_of
from edge_runtime.state import StateDirectory
from edge_runtime.telemetry import configure_logging, get_logger
from edge_runtime.updates.process.driver import Driver
from edge_runtime.updates.process.loop import run
from edge_runtime.updates.process.socket import UpdatesSocket
from edge_runtime.updates.process.standing import of_driver, of_files

DEADLINE_S = 30.0
"""From one turn of its loop to the next; calls of perception in it may take 3 s each."""

_NICENESS = 10
_LOOK_S = 1.0
_AGAIN_S = 5.0


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal asks for the end; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m edge_runtime.node.updates_process", description="The updates' process."
    )
    parser.add_argument("--config", type=Path, required=True, help="configuration with an updates section")
    parser.add_argument("--state", type=Path, help="state directory")
    parser.add_argument("--with-parent", action="store_true", help="end when the parent process ends")
    options = parser.parse_args(arguments)
    leave_no_core()
    with asked_to_end() as ending:
        if options.with_parent:
            die_with_parent()
        try:
            return _run(load_config(options.config), options.state, ending)
        except EdgeRuntimeError as error:
            sys.stderr.write(f"error: {error}\n")
            return error.exit_code


def _run(loaded: LoadedConfig, option: Path | None, ending: socket.socket) -> int:
    configure_logging(loaded.config.logging.level, loaded.config.logging.format)
    if not loaded.config.takes_updates:
        raise ConfigError(f"{loaded.path}: has no updates section, or one that is not enabled")
    state, clock = state_of(loaded, option).ensure(), SystemClock()
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
    beat = _beats(SlotWriter.from_environment(), clock)
    beat()
    process = _Process(assembled(loaded, state, clock), ending, beat)
    with contextlib.closing(
        UpdatesSocket(state.updates_socket, lambda _ask: process.standing())
    ) as listening:
        process.run(listening)
    return 0


def _beats(slot: SlotWriter | None, clock: Clock) -> Callable[[], None]:
    """What tells the guard of each turn; it evaluates no condition."""

    def beat() -> None:
        if slot is not None:
            slot.finished("turn", None, clock.monotonic_ns() + int(DEADLINE_S * NS_PER_S), 0, 0)

    return beat


class _Process:
    """Makes a driver for the identity that there is, and another one when that changes."""

    def __init__(self, assembly: Assembly, ending: socket.socket, beat: Callable[[], None]) -> None:
        self._assembly, self._ending, self._beat = assembly, ending, beat
        self._driver: Driver | None = None

    def standing(self) -> dict[str, object]:
        """For who asks."""
        if self._driver is None:
            return {**of_files(self._assembly.state.updates), "running": True, "trouble": "not enrolled yet"}
        return of_driver(self._driver)

    def run(self, listening: UpdatesSocket) -> None:
        """Until the end is asked for."""
        while True:
            known = _known(self._assembly.state)
            self._driver = None if known is None else self._made(known[0])
            if self._driver is None:
                if self._waits(listening, _LOOK_S if known is None else _AGAIN_S):
                    return
                continue
            if run(
                self._driver,
                listening,
                self._ending,
                beat=self._beat,
                changed=lambda known=known: _known(self._assembly.state) != known,  # type: ignore[misc]
                clock=self._assembly.clock,
            ):
                return
            self._driver.stop()
            while not self._driver.is_idle:
                if self._waits(listening, _LOOK_S):
                    return
            get_logger().info("the device's identity has changed; updates go on with the new one")

    def _made(self, identity: Identity) -> Driver | None:
        try:
            return Driver(parts_of(self._assembly, identity))
        except (OSError, EdgeRuntimeError) as error:
            get_logger().error("updates cannot begin", why=getattr(error, "strerror", None) or str(error))
            return None

    def _waits(self, listening: UpdatesSocket, seconds: float) -> bool:
        """Beat, and answer; whether the end is asked for."""
        self._beat()
        ready, _, _ = select.select([self._ending.fileno(), listening.fileno()], [], [], seconds)
        if listening.fileno() in ready:
            listening.serve()
        return self._ending.fileno() in ready


def _known(state: StateDirectory) -> tuple[Identity, str] | None:
    """Who the device is, and its key; None before it is enrolled, or while that cannot be read."""
    try:
        identity = Identity.load(state)
        return None if identity is None else (identity, key_sha256(identity))
    except (OSError, IdentityError):
        return None


if __name__ == "__main__":
    sys.exit(main())
