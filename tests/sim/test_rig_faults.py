"""Every fault of the world in every rig that says that it can bring it about: its means are there, and do it."""

import contextlib
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.clock import NS_PER_S, SystemClock
from edge_runtime.guard.conditions import Condition
from sim.local.around import Around
from sim.local.site import Site
from sim.local.world import means_of as local_means
from sim.network import Impairment, Network
from sim.process import Process, RoadError
from sim.scenario.document import read_scenario, scenario_files
from sim.scenario.faults import WORLD
from sim.scenario.records import DeviceSpec, Expectation, Fault, Rig, Scenario, World
from sim.scenario.timeline import NeverReady, Timeline
from sim.scene.camera import VirtualCamera
from sim.scene.render import Renderer
from sim.simulated.device import SimDevice, View
from sim.simulated.rig import _Run
from sim.simulated.updates import SimUpdates
from sim.simulated.world import means_of as simulated_means

SPEC = DeviceSpec(
    body="cart",
    camera_fps=5,
    battery=0.9,
    battery_lasts=100,
    pose=True,
    air=(25.0, 55.0),
    warms=30,
    events_per_minute=600,
    updates=True,
)


class Bench:
    """A simulated device that works, and the means of its rig."""

    def __init__(self, folder: Path) -> None:
        self.renderer = Renderer(World())
        self.device = SimDevice(folder, SPEC, View(self.renderer.draw, self.renderer.truth), frozenset())
        self.timeline, self.now = Timeline(), 0.0
        self.means = simulated_means(self.device, self.renderer, self.timeline, lambda: self.now)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(round(seconds / 0.05)):
            self.now += 0.05
            self.timeline.run(self.now)
            self.device.step(0.05)

    def holds(self, *conditions: Condition) -> bool:
        """Whether each of them holds."""
        return all(self.device.tripped & one.mask for one in conditions)

    def rows(self) -> int:
        """What the server has."""
        return len(self.device.uplink.server.rows)

    def passes(self, seconds: float) -> int:
        """What comes to the server meanwhile."""
        before = self.rows()
        self.run(seconds)
        return self.rows() - before


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    made.run(1.0)
    yield made
    made.device.close()


def clock_stepped(bench: Bench) -> bool:
    bench.run(0.3)
    return bench.holds(Condition.CLOCK_STEPPED)


def hung(bench: Bench) -> bool:
    bench.run(1.5)
    return bench.holds(Condition.WORKER_HUNG)


def dead(bench: Bench) -> bool:
    bench.run(0.05)
    return bench.holds(Condition.WORKER_DEAD)


def guard_away(bench: Bench) -> bool:
    bench.run(0.5)
    return bench.device.guarding.away


def broke(bench: Bench) -> bool:
    return bench.device.uplink.breaks == 1


def no_broker(bench: Bench) -> bool:
    return broke(bench) and not bench.device.uplink.up


def dark(bench: Bench) -> bool:
    bench.run(0.5)
    return bench.holds(Condition.SOURCE_DARK)


def silent(bench: Bench) -> bool:
    bench.run(1.0)
    return bench.holds(Condition.POSE_STALE)


def old_map(bench: Bench) -> bool:
    before = bench.device.monitor.map_ns
    bench.run(0.3)
    return bench.device.monitor.map_ns == before


def lost(bench: Bench) -> bool:
    return bench.passes(2.0) == 0 and bench.holds(Condition.LINK_LOST)


def frozen(bench: Bench) -> bool:
    return bench.passes(2.0) == 0 and not bench.holds(Condition.LINK_LOST)


def slow(bench: Bench) -> bool:
    return bench.passes(2.0) < 10  # of 20


def late(bench: Bench) -> bool:
    return bench.passes(1.0) <= 5  # those that were under way; others need 1.1 s


def no_room(bench: Bench) -> bool:
    bench.device.uplink.up = False  # what is settled would make room
    bench.run(4.0)
    full = "the disk is full" in " ".join(bench.device.uplink.outbox.status().sentences)
    bench.device.uplink.up = True
    bench.device.uplink.outbox.upkeep_now()
    bench.run(2.0)
    return full


def inference_late(bench: Bench) -> bool:
    bench.run(2.0)
    return bench.holds(Condition.INFERENCE_LATE)


def unpermitted(bench: Bench) -> bool:
    before = bench.device.uplink.held
    bench.run(1.0)
    return bench.device.uplink.held > before


def stopped(bench: Bench) -> bool:
    before = bench.device.guarding.outputs
    bench.run(0.5)
    return bench.device.guarding.outputs is before


def warmer(bench: Bench) -> bool:
    return bench.device.machine.heat.ambient_c > 25.5


def hot(bench: Bench) -> bool:
    bench.run(2.5)  # the tree is shown and read once a second
    return bench.holds(Condition.SOC_HOT)


def updates_of(bench: Bench) -> SimUpdates:
    """After 15 s in which nothing else is looked at."""
    found = bench.device.updates
    assert found is not None
    for _ in range(30):
        bench.device.clock.advance(NS_PER_S // 2)
        found.step()
    return found


def updated(bench: Bench) -> bool:
    return updates_of(bench).runs is not None


def bad_in_use(bench: Bench) -> bool:
    return updates_of(bench).bad_ns > 0


def emptier(bench: Bench) -> bool:
    return (bench.device.machine.charge or 0.0) < 0.895


EFFECTS: dict[tuple[str, str], Callable[[Bench], bool]] = {
    ("air", "warms"): warmer,
    ("battery", "drains"): emptier,
    ("lens", "covered"): dark,
    ("pose", "silent"): silent,
    ("map", "silent"): old_map,
    ("link", "lost"): lost,
    ("link", "frozen"): frozen,
    ("link", "flapping"): broke,
    ("link", "slow"): slow,
    ("link", "late"): late,
    ("link", "portal"): lost,
    ("broker", "restarts"): no_broker,
    ("disk", "fills"): no_room,
    ("neighbour", "noisy"): inference_late,
    ("clock", "steps"): clock_stepped,
    ("worker", "hung"): hung,
    ("worker", "killed"): dead,
    ("guard", "stopped"): stopped,
    ("guard", "killed"): guard_away,
    ("policy", "missing"): unpermitted,
    ("die", "hot"): hot,
    ("release", "good"): updated,
    ("release", "bad"): bad_in_use,
    ("device", "reboots"): guard_away,
}
SELF = {("air", "warms"), ("battery", "drains")}
"""What the device does all the time, as its spec says."""

GROWS = {("disk", "fills")}
"""What was seen once without the fault would leave room in the file for the second time."""


@pytest.mark.parametrize("key", [key for key, fault in WORLD.items() if "sim" in fault.rigs], ids="-".join)
def test_the_simulated_rig_brings_it_about_and_puts_it_right(bench: Bench, key: tuple[str, str]) -> None:
    seen, means = EFFECTS[key], bench.means[key]
    if key not in SELF | GROWS | {("link", "flapping"), ("broker", "restarts")}:
        assert not seen(bench), "it is so without the fault"
    means.begin(300.0 if key == ("link", "slow") else WORLD[key].amount or 0.0)
    assert seen(bench)
    if means.end is not None:
        means.end()
        bench.run(1.5)
        assert not seen(bench), "it is not put right"


def test_a_body_that_stood_has_no_stopping_distance(bench: Bench) -> None:
    covered = Fault(name="covered", at=12, lasts=2, unit="lens", kind="covered")
    scenario = Scenario(
        name="stood",
        title="",
        about="",
        rigs=("sim",),
        duration=15,
        device=SPEC,
        fault=(covered,),
        expect=(Expectation(measure="stop", at_most=2, unit="m"),),
    )
    motion, run = bench.device.motion, _Run(scenario, bench.device, bench.renderer)
    assert motion is not None
    assert motion.robot.stands
    run._begins(covered)
    run._measure_stop(motion)
    assert "stop" not in run._trace.values
    motion.robot.v_m_s = 0.3
    run._begins(covered)
    motion.robot.v_m_s = 0.0
    run._measure_stop(motion)
    assert run._trace.values["stop"] == 0.0


@pytest.fixture
def site(tmp_path: Path, echo: tuple[str, int]) -> Iterator[Site]:
    """The parts of a site that are neither a server nor a device."""
    spec = DeviceSpec(camera_fps=2, battery=0.5)
    made = Site(tmp_path / "site", spec, World())
    made.camera, made.network = VirtualCamera(World(), 2), Network(echo)
    made.around = Around(tmp_path / "machine", spec, made.device.state, SystemClock(), None)
    made.give_policy()
    yield made
    made.around.close()
    made.network.close()
    made.camera.close()


def test_each_rig_has_means_for_exactly_what_it_says(bench: Bench, site: Site) -> None:
    means = {"sim": set(bench.means), "local": set(local_means(site, Timeline(), lambda: 0.0))}
    for rig, found in means.items():
        assert found == {key for key, fault in WORLD.items() if rig in fault.rigs}
    assert set(EFFECTS) == means["sim"]


def test_every_fault_of_the_world_is_in_a_scenario_of_each_of_its_rigs() -> None:
    used: dict[Rig, set[tuple[str, str]]] = {"sim": set(), "local": set()}
    for path in scenario_files():
        scenario = read_scenario(path)
        for rig in scenario.rigs:
            used[rig] |= {(fault.unit, fault.kind) for fault in scenario.fault}
    for rig, found in used.items():
        missing = {key for key, fault in WORLD.items() if rig in fault.rigs} - found
        assert missing <= {("pose", "silent")}, rig  # robot_trials has it


def test_a_fault_without_means_is_refused() -> None:
    fault = Fault(name="x", at=1, unit="guard", kind="killed")
    with pytest.raises(NeverReady, match="guard killed: this rig has no means"):
        Timeline().bring_about(fault, {}, 10.0)


def answers(network: Network) -> bytes:
    """What a new connection gets back; empty where it is refused or broken."""
    with (
        socket.create_connection(("127.0.0.1", network.port), timeout=30) as end,
        contextlib.suppress(OSError),
    ):
        end.sendall(b"x")
        return end.recv(64)
    return b""


def test_the_local_rig_breaks_a_real_link_and_heals_it(site: Site) -> None:
    means = local_means(site, Timeline(), lambda: 0.0)
    for kind, given in (("lost", b""), ("portal", b"HTTP/1.1 302")):
        one = means["link", kind]
        one.begin(0.0)
        assert answers(site.network).startswith(given)
        assert answers(site.network) != b"x"
        assert one.end is not None
        one.end()
        assert answers(site.network) == b"x"
    with socket.create_connection(("127.0.0.1", site.network.port), timeout=30) as end:
        end.sendall(b"x")
        assert end.recv(1) == b"x"
        means["link", "frozen"].begin(0.0)
        end.sendall(b"y")
        end.settimeout(0.3)
        with pytest.raises(TimeoutError):
            end.recv(1)
        end.settimeout(30)
        site.network.heal()
        assert end.recv(1) == b"y"
        before = site.network.breaks
        means["link", "flapping"].begin(3.0)
        assert end.recv(1) == b""
        assert site.network.breaks == before + 1
    for kind in ("slow", "late"):
        one = means["link", kind]
        one.begin(0.5)
        assert site.network._impairment != Impairment()
        assert one.end is not None
        one.end()
        assert answers(site.network) == b"x"


def test_the_local_rig_covers_the_lens_and_takes_the_policy(site: Site) -> None:
    means = local_means(site, Timeline(), lambda: 0.0)
    lens, policy = means["lens", "covered"], means["policy", "missing"]
    lens.begin(0.0)
    assert int(np.max(site.camera.renderer.draw(1.0))) < 32
    policy.begin(0.0)
    assert not site.policy.exists()
    assert lens.end is not None
    assert policy.end is not None
    lens.end()
    policy.end()
    assert int(np.max(site.camera.renderer.draw(1.0))) > 32
    assert site.policy.exists()


def test_the_local_rig_changes_what_the_device_has_around_it(site: Site) -> None:
    means, machine = local_means(site, Timeline(), lambda: 0.0), site.around.machine
    sensor = machine.root / "sys/class/thermal/thermal_zone0/temp"

    def celsius() -> float:
        machine.show()
        return int(sensor.read_text(encoding="ascii")) / 1000

    def drained() -> float:
        before = machine.charge or 0.0
        machine.advance(10, 0.3)
        return before - (machine.charge or 0.0)

    assert celsius() == 25
    means["die", "hot"].begin(92.0)
    assert celsius() == 92
    assert drained() == 0
    means["battery", "drains"].begin(0.0)
    assert drained() > 0
    for key in (("die", "hot"), ("battery", "drains")):
        mended = means[key].end
        assert mended is not None
        mended()
    assert celsius() < 60
    assert drained() == 0
    for key, name in ((("pose", "silent"), "speaks"), (("map", "silent"), "maps")):
        means[key].begin(0.0)
        assert not getattr(site.around, name)


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (("worker", "hung"), "perception does not run, or the guard does not answer"),
        (("worker", "killed"), "perception does not run, or the guard does not answer"),
        (("guard", "killed"), "the guard does not run"),
        (("guard", "stopped"), "the guard does not run"),
        (("disk", "fills"), "the guard does not run"),
        (("neighbour", "noisy"), "perception does not run, or the guard does not answer"),
    ],
)
def test_what_is_away_cannot_be_killed_again(site: Site, key: tuple[str, str], says: str) -> None:
    with pytest.raises(RoadError, match=says):
        local_means(site, Timeline(), lambda: 0.0)[key].begin(0.0)


def test_a_broker_that_is_not_there_is_not_killed_in_silence(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sim.local.site.BROKER_S", 0.2)
    site.server.process = Process(
        (sys.executable, "-c", "import time; time.sleep(1000)"), tmp_path / "server.log"
    )
    site.server.process.spawn()
    try:
        with pytest.raises(RoadError, match="no broker was there to be killed"):
            local_means(site, Timeline(), lambda: 0.0)["broker", "restarts"].begin(3.0)
    finally:
        site.server.process.kill()


def test_a_timeline_keeps_its_order_and_mends_what_is_broken() -> None:
    timeline, done = Timeline(), list[str]()
    timeline.at(2.0, lambda: done.append("second"))
    timeline.at(1.0, lambda: done.append("first"))
    timeline.at(5.0, lambda: done.append("mended"), mends=True)
    timeline.at(6.0, lambda: done.append("never"))
    timeline.run(0.9)
    assert not done
    timeline.run(2.0)
    assert done == ["first", "second"]
    timeline.mend()
    timeline.run(10.0)
    assert done == ["first", "second", "mended"]
