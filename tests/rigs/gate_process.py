"""A process with the real gate: it takes events whose content holds a canary, says what became of them, and dies.

    python -m tests.rigs.gate_process --state DIR --policy FILE --ring DIR --canary TEXT [--data-class C]

Its standard output is the gate's status as JSON after `ready`. It ends by an abort with faulthandler on, as a crash
would, so that what a crash leaves is there to be looked at.
"""

import argparse
import faulthandler
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from edge_runtime.clock import SystemClock
from edge_runtime.gate import CropFolder, Gate, PolicyFile
from edge_runtime.lifeline import die_with_parent
from edge_runtime.outbox import OutboxClient
from edge_runtime.protocol import uuid7
from edge_runtime.state import StateDirectory
from edge_runtime.telemetry import configure_logging
from tests.rigs.gate import event, jpeg, put_crop

_CLOSE_S = 20.0


def main() -> None:
    """Write the events, hand them over, and crash."""
    parser = argparse.ArgumentParser()
    for name in ("--state", "--policy", "--ring"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--canary", required=True)
    parser.add_argument("--data-class", default="internal")
    parser.add_argument("--crop", default="good")
    parser.add_argument("--count", type=int, default=3)
    options = parser.parse_args()
    die_with_parent()
    configure_logging("debug")
    faulthandler.enable()
    clock, state = SystemClock(), StateDirectory(options.state)
    client = OutboxClient(state.outbox_socket, clock)
    crops = CropFolder(options.ring)
    gate = Gate(client, PolicyFile(options.policy, clock), state, crops=crops, clock=clock)
    gate.start()
    crop = jpeg() if options.crop == "good" else b"no picture at all"
    evidence = put_crop(options.ring, crop, f"{options.canary}.jpg")
    for _ in range(options.count):
        record = event(
            clock,
            id=uuid7(clock.wall().unix_ns),
            data_class=options.data_class,
            label=options.canary,
            reason=options.canary,
            evidence=evidence,
        )
        if not gate.write(record):
            raise SystemExit("the gate's ring is full")
    whole = gate.close(_CLOSE_S)
    sys.stderr.write("\n".join(gate.notices()) + "\n")
    sys.stdout.write("ready " + json.dumps({"whole": whole, **asdict(gate.status())}, default=str) + "\n")
    sys.stdout.flush()
    os.abort()


if __name__ == "__main__":
    main()
