"""How rig `local` brings the faults of the world about: one row for each."""

import math
import signal
from collections.abc import Callable, Mapping

from edge_runtime.clock import SystemClock
from sim.local.certificate import expire
from sim.local.site import Site
from sim.network import Impairment
from sim.scenario.timeline import SERVICE_RESTARTS_S, Means, Timeline


def means_of(site: Site, timeline: Timeline, now: Callable[[], float]) -> Mapping[tuple[str, str], Means]:
    """By unit and kind.

    Args:
        site: to which it happens.
        timeline: of the run; a guard that was killed is started again on it.
        now: seconds on it.
    """
    battery_lasts = site.spec.battery_lasts

    def bad(impairment: Callable[[float], Impairment]) -> Means:
        return Means(
            lambda amount: site.network.become(impairment(amount)),
            lambda: site.network.become(Impairment()),
        )

    def heal() -> None:
        site.network.heal()

    def cover(covered: bool) -> None:  # noqa: FBT001 - used here alone
        site.camera.renderer.covered = covered

    def kill_guard(_: float) -> None:
        site.device.kill_guard()
        if "service_manager" not in site.without:
            timeline.at(now() + SERVICE_RESTARTS_S, site.device.start, mends=True)

    def lose_power(away_s: float) -> None:
        site.cut_power()
        timeline.at(now() + away_s, site.device.start, mends=True)

    def drain(_: float) -> None:
        site.around.machine.lasts_s = battery_lasts

    def hold() -> None:
        site.around.machine.lasts_s = math.inf

    def put(thing: object, name: str, *, during: object, after: object) -> Means:
        return Means(lambda _: setattr(thing, name, during), lambda: setattr(thing, name, after))

    def outlive_certificate(_: float) -> None:
        site.device.kill_guard()
        expire(site.server, site.device.state, SystemClock(), forgotten="renewal" in site.without)
        timeline.at(now() + SERVICE_RESTARTS_S, site.device.start, mends=True)

    return {
        ("lens", "covered"): Means(lambda _: cover(True), lambda: cover(False)),  # noqa: FBT003
        ("link", "lost"): Means(lambda _: site.network.cut(), heal),
        ("link", "frozen"): Means(lambda _: site.network.freeze(), heal),
        ("link", "flapping"): Means(lambda _: site.network.kick()),
        ("link", "slow"): bad(lambda amount: Impairment(bytes_per_s=amount)),
        ("link", "late"): bad(lambda amount: Impairment(delay_s=amount)),
        ("link", "portal"): bad(lambda _: Impairment(portal=True)),
        ("broker", "restarts"): Means(lambda _: site.kill_broker()),
        ("battery", "drains"): Means(drain, hold),
        ("die", "hot"): Means(
            lambda amount: setattr(site.around.machine, "held_c", amount),
            lambda: setattr(site.around.machine, "held_c", None),
        ),
        ("pose", "silent"): put(site.around, "speaks", during=False, after=True),
        ("map", "silent"): put(site.around, "maps", during=False, after=True),
        ("disk", "fills"): Means(lambda _: site.device.fill_disk(), site.device.free_disk),
        ("neighbour", "noisy"): Means(site.neighbour.come, site.neighbour.leave),
        ("clock", "steps"): Means(site.step_clock),
        ("worker", "hung"): Means(lambda _: site.device.signal_worker("perception", signal.SIGSTOP)),
        ("worker", "killed"): Means(lambda _: site.device.signal_worker("perception", signal.SIGKILL)),
        ("guard", "killed"): Means(kill_guard),
        ("guard", "stopped"): Means(
            lambda _: site.device.signal_guard(signal.SIGSTOP),
            lambda: site.device.signal_guard(signal.SIGCONT),
        ),
        ("certificate", "expires"): Means(outlive_certificate),
        ("release", "good"): Means(lambda _: site.assign(bad=False)),
        ("release", "bad"): Means(lambda _: site.assign(bad=True)),
        ("device", "reboots"): Means(lose_power),
        ("policy", "missing"): Means(lambda _: site.policy.unlink(), site.give_policy),
    }
