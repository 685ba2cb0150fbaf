"""A rollout to a whole fleet through one server process: plan, assignments, reports, verdicts; time and memory.

    python -m tests.bench.bench_rollouts [--devices 100000] [--postgres URL]

Of the devices 20 % are away all the time and 2 % refuse or revert. Stages open 1, 10, 50 and 100 %. Devices are on
paper (tests/rigs/rollout_fleet.py) and in this process; their own time is counted apart. Every assignment is signed
and verified, every report is one that a device could send: accepted, on probation, and its end. Aim: an engine's
look at 100,000 devices takes at most a second. Bare envelopes are shown beside what signing and writing them cost.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from edge_runtime.protocol.envelope import seal
from edge_runtime.protocol.update import ASSIGNMENT_TYPE
from fleet_server.rollouts.plan_records import Pacing
from fleet_server.rollouts.states import RolloutState
from fleet_server.storage import open_store, upgrade
from tests.rigs.rollout_fleet import PaperFleet, stage

BATCH = 500
"""Reports of one transaction of ingest."""


class Watch:
    """Seconds by what they went to: on the wall, and of the processor, for a machine that has other work too."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = {}
        self.busy: dict[str, list[float]] = {}

    @contextmanager
    def on(self, name: str) -> Iterator[None]:
        began, busy = time.perf_counter(), time.process_time()
        yield
        self.spent.setdefault(name, []).append(time.perf_counter() - began)
        self.busy.setdefault(name, []).append(time.process_time() - busy)

    def line(self, title: str, name: str, count: int = 0) -> None:
        """A row of the table; `count` things were done in it."""
        spent, busy = self.spent.get(name, [0.0]), self.busy.get(name, [0.0])
        text = f"{title:30}{sum(spent):9.2f} s{sum(busy):9.2f} s cpu, longest {max(spent):.2f} s, {max(busy):.2f} s"
        each = f", {count / sum(spent):,.0f}/s, {count / sum(busy):,.0f}/s cpu" if count else ""
        print(text + each)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--devices", type=int, default=100_000)
    parser.add_argument("--postgres", help="URL of an empty database; SQLite in a file without it")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(chosen.postgres or f"sqlite:///{Path(folder) / 'fleet.db'}")
        upgrade(store)
        measure(PaperFleet(store), chosen.devices)
        store.close()


def measure(fleet: PaperFleet, count: int) -> None:
    watch = Watch()
    _enrol(fleet, count)
    memory = _rss_mb()
    fleet.publish(1)
    rules = {"min_devices": 10, "max_bad_share": 0.2, "min_share": 0.95, "soak_s": 5}
    stages = [stage(points, rules=rules) for points in (100, 1000, 5000, 10_000)]
    pacing = Pacing(max_in_flight=20_000)
    plan = fleet.plan(1, *stages, pacing=pacing, deadlines={"unreachable_s": 30})
    with watch.on("plan"):
        fleet.service.plan(plan)
    with watch.on("create"):
        rollout = fleet.service.create("anna", plan).id
    fleet.service.approve("ben", rollout)
    fleet.service.start("anna", rollout)
    signed = offered = steps = reports = 0
    while fleet.show(rollout).state is RolloutState.RUNNING:
        fleet.pass_s(2)
        steps += 1
        with watch.on("engine"):
            offered += fleet.service._engine.step(fleet.now_ms).offered  # the engine without the director
        with watch.on("signing"):
            done = fleet.director.sign_due(fleet.now_ms)
            while done:
                signed += done
                done = fleet.director.sign_due(fleet.now_ms)
        reports += _answers(fleet, watch)
        with watch.on("status"):
            fleet.show(rollout)
        assert steps < 5000, fleet.show(rollout)
    shown = fleet.show(rollout)
    _looks(fleet, watch)
    print(f"devices {count:,}, asked {signed:,}, reports {reports:,}, steps {steps}, {shown.state.value}")
    print({state.value: number for state, number in shown.counts.items()})
    watch.line("plan", "plan")
    watch.line("create (members written)", "create")
    watch.line("engine, all steps", "engine")
    watch.line("five looks that decide nothing", "look", 5)
    watch.line("signing, desired states", "signing", signed)
    watch.line("reports", "reports", reports)
    watch.line("status", "status")
    watch.line("devices on paper", "devices")
    print(f"{'bare envelopes':30}{_bare(fleet):9,.0f}/s cpu")
    print(f"{'memory':30}{_rss_mb():9.0f} MB, of it {memory:.0f} MB before the rollout: devices on paper")


def _enrol(fleet: PaperFleet, count: int) -> None:
    for start in range(0, count, 10_000):
        group: dict[tuple[bool, str], list[str]] = {}
        for number in range(start, min(count, start + 10_000)):
            fate = {0: "reverted", 1: "refused"}.get(number % 100, "healthy")
            group.setdefault((number % 5 != 4, fate), []).append(f"dev-{number:06d}")
        for (online, fate), members in group.items():
            fleet.enrol(*members, online=online, fate=fate)


def _answers(fleet: PaperFleet, watch: Watch) -> int:
    """Devices answer what they see; their reports come in transactions of `BATCH`."""
    kept = fleet.take
    said: list[tuple[str, object]] = []
    fleet.take = said.extend  # type: ignore[method-assign, assignment]
    with watch.on("devices"):
        fleet.deliver()
    fleet.take = kept  # type: ignore[method-assign]
    for start in range(0, len(said), BATCH):
        with watch.on("reports"):
            fleet.take(said[start : start + BATCH])  # type: ignore[arg-type]
    return len(said)


def _looks(fleet: PaperFleet, watch: Watch) -> None:
    """What the engine needs to find that there is nothing to do, with everything that it counts."""
    with fleet.store.write() as session:
        connection = session.connection()
        connection.exec_driver_sql("UPDATE rollouts SET state = 'running'")
        connection.exec_driver_sql("UPDATE rollout_stages SET state = 'soaking', soaking_ms = 9000000000000")
    fleet.service._engine._joined_ms = fleet.now_ms
    look: Callable[[], object] = lambda: fleet.service._engine.step(fleet.now_ms)  # noqa: E731
    look()
    for _ in range(5):
        with watch.on("look"):
            look()


def _bare(fleet: PaperFleet) -> float:
    """Assignments that are only sealed, per second."""
    device = next(device for device in fleet.devices.values() if device.seen)
    began = time.process_time()
    for _ in range(2000):
        seal(device.seen[0], ASSIGNMENT_TYPE, fleet.signer)
    return 2000 / (time.process_time() - began)


def _rss_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
