"""The uplink's process with its hands: `python -m edge_runtime.node.uplink_process --config FILE [--state DIR]`.

The uplink may not know the gate. Here a command of the fleet server meets the review of held items, and the list of
held items that policy shows the operator; the policy on this device decides about both.

Under a guard it beats after each turn of its loop, and until the device is enrolled it waits for that.
"""

import argparse
import contextlib
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from edge_runtime.clock import NS_PER_S, Clock, SystemClock
from edge_runtime.config import LoadedConfig, load_config
from edge_runtime.config.delivery import DeliveryConfig
from edge_runtime.errors import ConfigError, EdgeRuntimeError
from edge_runtime.gate import PolicyFile
from edge_runtime.gate.opening import ConfiguredRedactor
from edge_runtime.gate.review import Reviewer, redacts
from edge_runtime.guard.conditions import Condition
from edge_runtime.guard.page import SlotWriter
from edge_runtime.identity import Identity
from edge_runtime.lifeline import die_with_parent, leave_no_core
from edge_runtime.node.camera_board import degraded_models, read_board
from edge_runtime.node.line_board import LineBoard
from edge_runtime.node.places import is_enrolled, policy_path, state_of
from edge_runtime.outbox import OutboxClient
from edge_runtime.policy import Policy
from edge_runtime.protocol import EvidenceMode
from edge_runtime.protocol.operation import Command, CommandKind, HeldList
from edge_runtime.protocol.wire import places
from edge_runtime.state import StateDirectory
from edge_runtime.telemetry import configure_logging
from edge_runtime.uplink import CommandAnswer, Hands, LinkIdentity, UplinkSettings
from edge_runtime.uplink.enrolled import enrolled, renewal
from edge_runtime.uplink.process import run

DEADLINE_S = 30.0
"""From one turn of the uplink's loop to the next; calls of the outbox in it may take 5 s each."""

_CALL_S = 5.0
_LOOK_S = 0.5
_MOST_HELD = 100


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal asks for the end; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m edge_runtime.node.uplink_process")
    parser.add_argument("--config", type=Path, required=True, help="configuration with a delivery section")
    parser.add_argument("--state", type=Path, help="state directory")
    parser.add_argument("--with-parent", action="store_true", help="end when the parent process ends")
    options = parser.parse_args(arguments)
    leave_no_core()
    if options.with_parent:
        die_with_parent()
    try:
        return _run(load_config(options.config), options.state)
    except EdgeRuntimeError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code


def _run(loaded: LoadedConfig, option: Path | None) -> int:
    configure_logging(loaded.config.logging.level, loaded.config.logging.format)
    state = state_of(loaded, option)
    clock = SystemClock()
    delivery = loaded.config.delivery or DeliveryConfig()
    try:
        settings = UplinkSettings.model_validate(delivery.uplink_settings())
    except ValidationError as error:
        raise ConfigError(f"delivery.uplink: {places(error)}") from None
    slot = SlotWriter.from_environment()
    beat = None if slot is None else _beats(slot, clock)
    while beat is not None and not is_enrolled(state):
        beat(False)  # noqa: FBT003 - as the port
        time.sleep(_LOOK_S)
    renew = renewal(state, clock, settings.proxy)
    with contextlib.closing(OutboxClient(state.outbox_socket, clock, _CALL_S)) as outbox:
        given = hands(loaded, state, outbox, renew)
        if beat is not None:
            given = replace(given, turned=beat)
        return run(state, settings, enrolled(state, clock), given, clock, announce=beat is None)


def _beats(slot: SlotWriter, clock: Clock) -> Callable[[bool], None]:
    """What tells the guard of each turn, and whether the server answers."""
    lost = Condition.LINK_LOST.mask

    def turned(online: bool) -> None:  # noqa: FBT001 - as the port
        due_ns = clock.monotonic_ns() + int(DEADLINE_S * NS_PER_S)
        slot.finished("turn", None, due_ns, lost, 0 if online else lost)

    return turned


def hands(
    loaded: LoadedConfig, state: StateDirectory, outbox: OutboxClient, renew: Callable[[], LinkIdentity]
) -> Hands:
    """What the uplink is handed: review, held items, cameras, renewal, and whom to tell how the line stands."""
    clock = SystemClock()
    redactor = ConfiguredRedactor(loaded)
    reviewer = Reviewer(outbox, policy_reader(loaded, state), state, clock, redactor)

    def review(command: Command) -> CommandAnswer:
        return _review(reviewer, command, redactor.how)

    def held() -> HeldList | None:
        identity = Identity.load(state)
        if identity is None:
            return None
        try:
            items = tuple(reviewer.held(_MOST_HELD, remote=True))
            total = len(items) if len(items) < _MOST_HELD else reviewer.count(remote=True)
        except EdgeRuntimeError:  # the outbox is away: the next report says what is held
            return None
        return HeldList(device=identity.device, total=total, items=items)

    return Hands(
        review=review,
        held=held,
        cameras=lambda: read_board(state, clock),
        renew=renew,
        line=LineBoard(state, clock).note,
        degraded=lambda: degraded_models(state, clock),
    )


def policy_reader(loaded: LoadedConfig, state: StateDirectory) -> Callable[[], Policy | None]:
    """Gives the policy in force, from any thread."""
    file = PolicyFile(policy_path(loaded, state), SystemClock(), state.assigned_policy)
    turn = threading.Lock()

    def policy() -> Policy | None:
        with turn:
            return file.in_force().policy

    return policy


def _review(reviewer: Reviewer, command: Command, how: str) -> CommandAnswer:
    if command.item is None or command.note is None:
        return CommandAnswer(done=False, text="names no held item, or no reason")
    try:
        if command.kind is CommandKind.RELEASE_HELD:
            receipt = reviewer.release(
                command.item,
                by=command.by,
                note=command.note,
                evidence=command.evidence or EvidenceMode.NONE,
                remote=True,
            )
            return CommandAnswer(done=True, text=f"released; {how}" if redacts(receipt) else "released")
        if command.kind is CommandKind.DROP_HELD:
            reviewer.drop(command.item, by=command.by, note=command.note, remote=True)
            return CommandAnswer(done=True, text="dropped")
    except EdgeRuntimeError as error:
        return CommandAnswer(done=False, text=str(error)[:200])
    return CommandAnswer(done=False, text=f"this device does not take {command.kind.value}")


if __name__ == "__main__":
    sys.exit(main())
