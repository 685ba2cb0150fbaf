"""What the motion gate costs at rest: printed, for the documentation."""

import json
import time
from pathlib import Path

import pytest

from tests.rigs.motion_gate import MS, Cell, cell


def processor_s(pid: int) -> float:
    """Time that a process had a processor."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def memory_mb(pid: int) -> dict[str, float]:
    """Memory of a process by kind."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.partition(":")[0]: int(line.split()[1]) / 1024 for line in lines}


def share(gate: Cell, seconds: float, *, permitted: bool) -> float:
    """Of one core, in percent, while nothing is proposed."""
    gate.status()
    began, used = time.monotonic(), processor_s(gate.gate.pid)
    while time.monotonic() - began < seconds:
        if permitted:
            gate.permit()
        time.sleep(0.3)
    return 100 * (processor_s(gate.gate.pid) - used) / (time.monotonic() - began)


@pytest.mark.parametrize("seconds", [0.6, pytest.param(20.0, marks=pytest.mark.trial)])
@pytest.mark.parametrize("real_time", [False, True])
def test_cost_at_rest(tmp_path: Path, seconds: float, real_time: bool) -> None:
    with cell(tmp_path, {"real_time": real_time}) as gate:
        closed = share(gate, seconds, permitted=False)
        gate.opened()
        opened = share(gate, seconds, permitted=True)
        memory = memory_mb(gate.gate.pid)
        private = memory["Private_Clean"] + memory["Private_Dirty"]
        print(f"\nfacts {json.dumps(gate.status()['facts'])}")
        print(
            f"  closed {closed:.2f} % of a core, open {opened:.2f} %, at rest; {gate.status()['passed']} passed"
        )
        print(
            f"  resident {memory['Rss']:.1f} MB, of it private {private:.1f} MB, locked {memory['Locked']:.1f} MB"
        )
        beat = gate.slot.read().beat
        assert beat is not None
        assert not beat.expired(time.monotonic_ns(), 60_000 * MS)
