"""How rig `local` brings the faults of the world about: one row for each."""

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
        site.kill_guard()
        timeline.at(now() + SERVICE_RESTARTS_S, site.start, mends=True)

    def outlive_certificate(_: float) -> None:
        site.kill_guard()
        expire(site.server, site.state, SystemClock())
        timeline.at(now() + SERVICE_RESTARTS_S, site.start, mends=True)

    return {
        ("lens", "covered"): Means(lambda _: cover(True), lambda: cover(False)),  # noqa: FBT003
        ("link", "lost"): Means(lambda _: site.network.cut(), heal),
        ("link", "frozen"): Means(lambda _: site.network.freeze(), heal),
        ("link", "flapping"): Means(lambda _: site.network.kick()),
        ("link", "slow"): bad(lambda amount: Impairment(bytes_per_s=amount)),
        ("link", "late"): bad(lambda amount: Impairment(delay_s=amount)),
        ("link", "portal"): bad(lambda _: Impairment(portal=True)),
        ("broker", "restarts"): Means(lambda _: site.kill_broker()),
        ("worker", "hung"): Means(lambda _: site.signal_worker("perception", signal.SIGSTOP)),
        ("worker", "killed"): Means(lambda _: site.signal_worker("perception", signal.SIGKILL)),
        ("guard", "killed"): Means(kill_guard),
        ("certificate", "expires"): Means(outlive_certificate),
        ("policy", "missing"): Means(lambda _: site.policy.unlink(), site.give_policy),
    }
