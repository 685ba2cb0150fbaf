"""The monitor's process: `python -m edge_runtime.node.monitor_process --config FILE [--state DIR] [--record DIR]`.

Under a guard it beats after each round, reads the guard's flight ring, and ends in order when the guard dies: what
the ring still holds is written down first.
Exit codes: 0 ended cleanly, 1 it could not do its work, 2 its arguments or the configuration cannot be used.
"""

import argparse
import contextlib
import gc
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from edge_runtime import __version__
from edge_runtime.clock import NS_PER_S, SystemClock
from edge_runtime.config import LoadedConfig, load_config
from edge_runtime.config.monitor import MonitorConfig
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.guard.page import SlotWriter
from edge_runtime.guard.ring import VARIABLE, RingReader
from edge_runtime.lifeline import die_with_parent, leave_no_core
from edge_runtime.monitor.adapters import AdapterSocket
from edge_runtime.monitor.changes import Labels
from edge_runtime.monitor.entries import Stamp
from edge_runtime.monitor.flight import FLIGHT
from edge_runtime.monitor.recall import Recalled, recall
from edge_runtime.monitor.recorder import Recorder
from edge_runtime.monitor.rounds import Parts, Rounds
from edge_runtime.monitor.sampling import HostSampler
from edge_runtime.node.camera_board import read_board
from edge_runtime.node.ending import asked_to_end
from edge_runtime.node.places import policy_path, state_of
from edge_runtime.socket_path import takes_datagrams
from edge_runtime.state import StateDirectory
from edge_runtime.telemetry import configure_logging, get_logger

if TYPE_CHECKING:
    from edge_runtime.faults.health import HealthFaults
    from edge_runtime.monitor.road import EventRoad
    from edge_runtime.recording import RoundRecorder

_RECORDER_S = 2.0
_PREDECESSOR_S = 6.0
_LOOK_S = 0.1


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal asks for the end; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m edge_runtime.node.monitor_process", description="The monitor's process."
    )
    parser.add_argument("--config", type=Path, required=True, help="configuration of the device")
    parser.add_argument("--state", type=Path, help="state directory")
    parser.add_argument(
        "--record", type=Path, help="folder of a recording, which gets a part of this process"
    )
    parser.add_argument("--mib", type=int, default=64, help="of the whole recording")
    parser.add_argument("--when-full", choices=("stop", "oldest"), default="stop", help="of the recording")
    parser.add_argument("--seconds", type=float, help="of the recording")
    options = parser.parse_args(arguments)
    leave_no_core()
    with asked_to_end() as ending:
        die_with_parent(signal.SIGTERM)  # it writes down that the guard has died
        try:
            return _run(load_config(options.config), options, ending)
        except EdgeRuntimeError as error:
            sys.stderr.write(f"error: {error}\n")
            return error.exit_code


def _run(loaded: LoadedConfig, options: argparse.Namespace, ending: socket.socket) -> int:
    configure_logging(loaded.config.logging.level, loaded.config.logging.format)
    state, clock = state_of(loaded, options.state).ensure(), SystemClock()
    settings = loaded.config.guarding.monitor
    flight, parent = state.guard / FLIGHT, os.getppid()
    with contextlib.ExitStack() as stack:
        # The socket is also what keeps a second monitor from the recorder's files, so it is closed last.
        adapters = stack.enter_context(contextlib.closing(_adapters(state, settings, clock, ending)))
        ring_name = _ring_name(clock)
        recalled = recall(flight, ring_name)
        slot, ring = SlotWriter.from_environment(), RingReader.from_environment(after=recalled.after)
        recorder = Recorder(flight, settings.recorder.bytes, settings.recorder.sync, clock)
        stack.callback(recorder.close, _RECORDER_S)
        road = _road(loaded, settings, state, clock)
        if road is not None:
            stack.callback(road.close)
        rounds = Rounds(
            Parts(
                settings=settings,
                sampler=HostSampler(
                    clock, _disks(loaded, state), settings.batteries, loaded.resolve(settings.root)
                ),
                adapters=adapters,
                recorder=recorder,
                ring=ring,
                ring_name=ring_name or "",
                slot=slot,
                orphaned=lambda: ring is not None and os.getppid() != parent,
                announcer=None if road is None else road.announcer,
                queue=_no_queue if road is None else road.queue,
                cameras=lambda: read_board(state, clock),
                clock=clock,
                faults=_faults(loaded, state, clock),
                tap=_tap(loaded, options, clock, stack),
            )
        )
        began = _began(loaded.digest, ring_name, recalled)
        _begin(Stamp.take(clock), began, recorder, recalled, road)
        gc.collect()
        gc.freeze()  # what was imported lives as long as the process
        rounds.run(ending)
        if road is not None:
            road.hand_over()
            rounds.note_handed()
    return 0


def _road(
    loaded: LoadedConfig, settings: MonitorConfig, state: StateDirectory, clock: SystemClock
) -> "EventRoad | None":
    delivery = loaded.config.delivery
    if delivery is None:
        return None
    from edge_runtime.monitor.road import EventRoad  # noqa: PLC0415 - a device that sends nothing loads no gate

    labels = Labels(settings.data_class, loaded.digest)
    return EventRoad(state, policy_path(loaded, state), delivery, labels, clock)


def _faults(loaded: LoadedConfig, state: StateDirectory, clock: SystemClock) -> "HealthFaults | None":
    if not loaded.config.injects_faults:
        return None
    from edge_runtime.faults.health import HealthFaults  # noqa: PLC0415 - on a bench alone
    from edge_runtime.node.fault_orders import refused  # noqa: PLC0415

    return HealthFaults.following(state, clock, refused)


def _tap(
    loaded: LoadedConfig, options: argparse.Namespace, clock: SystemClock, stack: contextlib.ExitStack
) -> "RoundRecorder | None":
    """A recording of the rounds, where one is wanted; whatever becomes of it, the guard relies on this process."""
    if options.record is None:
        return None
    from edge_runtime.node.guarding import body_profile  # noqa: PLC0415 - for a recording alone
    from edge_runtime.node.recording import RecordingWish, record_rounds  # noqa: PLC0415
    from edge_runtime.recording.folder import MIB  # noqa: PLC0415
    from edge_runtime.recording.head import WhenFull  # noqa: PLC0415

    wish = RecordingWish(
        options.record, options.mib * MIB, WhenFull(options.when_full), seconds=options.seconds
    )
    try:
        tap, writer = record_rounds(loaded, wish, clock, body=body_profile(loaded))
    except EdgeRuntimeError as error:
        get_logger().error("the monitor is not recorded", why=str(error))
        return None
    stack.callback(writer.close, _RECORDER_S)
    return tap


def _no_queue() -> None:
    return None


def _adapters(
    state: StateDirectory, settings: MonitorConfig, clock: SystemClock, ending: socket.socket
) -> AdapterSocket:
    """The adapters' socket; a predecessor whose guard died is waited for while it writes its last lines down."""
    reported = frozenset(name for name, bounds in settings.batteries.items() if bounds.supply is None)
    until_ns = clock.monotonic_ns() + int(_PREDECESSOR_S * NS_PER_S)
    while takes_datagrams(state.adapters_socket) and clock.monotonic_ns() < until_ns:
        if select.select([ending], [], [], _LOOK_S)[0]:
            break
    return AdapterSocket(state.adapters_socket, reported, clock)


def _ring_name(clock: SystemClock) -> str | None:
    """Which ring this process was given: the memory's number, the guard's process, and the boot."""
    told = os.environ.get(VARIABLE, "")
    try:
        return f"{clock.wall().boot_id[:8]}-{os.getppid()}-{os.fstat(int(told)).st_ino:x}"
    except (ValueError, OSError):
        return None  # reading it says what is wrong with it


def _disks(loaded: LoadedConfig, state: StateDirectory) -> dict[str, Path]:
    found = {"state": state.path}
    if loaded.config.evidence is not None:
        folder = loaded.resolve(loaded.config.evidence.directory)
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent  # perception makes it; its disk is there already
        found["evidence"] = folder
    return found


def _began(digest: str, ring: str | None, recalled: Recalled) -> dict[str, object]:
    """What the record of the start says."""
    return {
        "version": __version__,
        "config": digest,
        "pid": os.getpid(),
        "ring": ring,
        "after": recalled.after,
    }


def _begin(
    stamp: Stamp,
    began: dict[str, object],
    recorder: Recorder,
    recalled: Recalled,
    road: "EventRoad | None",
) -> None:
    records = [stamp.record("start", began)]
    if road is not None and recalled.given_up:
        get_logger().error("events of an earlier run given up", events=recalled.given_up)
        records.append(stamp.record("lost", {"events": recalled.given_up}))
    ticket = recorder.append(records, urgent=True)
    if road is not None:
        road.announcer.announce(recalled.unhanded, ticket)


if __name__ == "__main__":
    sys.exit(main())
