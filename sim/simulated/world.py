"""How rig `sim` brings the faults of the world about: one row for each."""

from collections.abc import Callable, Mapping

from edge_runtime.clock import NS_PER_S
from sim.scenario.timeline import Means, Timeline
from sim.scene.render import Renderer
from sim.simulated.camera_pipeline import MODEL_NS
from sim.simulated.device import SimDevice
from sim.simulated.uplink import POLICY

_BROKER_AWAY_S = 1.0


def means_of(
    device: SimDevice, renderer: Renderer, timeline: Timeline, now: Callable[[], float]
) -> Mapping[tuple[str, str], Means]:
    """By unit and kind.

    Args:
        device: to which it happens.
        renderer: before its camera.
        timeline: of the run; a broker that was killed comes back on it.
        now: seconds on it.
    """
    uplink, monitor, guarding = device.uplink, device.monitor, device.guarding

    def lose(_: float) -> None:
        uplink.cut()
        uplink.up = False

    def find() -> None:
        uplink.up = True

    def restart(period_s: float) -> None:
        lose(period_s)
        timeline.at(now() + min(_BROKER_AWAY_S, period_s / 2), find, mends=True)

    def thaw() -> None:
        uplink.cut()  # both ends have given it up by then
        uplink.frozen = False

    def become(*, late_s: float = 0.0, bytes_per_s: float | None = None) -> None:
        uplink.late_ns, uplink.bytes_per_s = round(late_s * NS_PER_S), bytes_per_s

    def portal(_: float) -> None:
        lose(0.0)
        uplink.portal = True

    def through() -> None:
        uplink.portal = False
        find()

    def take_processor(times: float) -> None:
        if device.pipeline is not None:
            device.pipeline.model_ns = round(MODEL_NS * times)

    def put(thing: object, name: str, *, during: object, after: object) -> Means:
        return Means(lambda _: setattr(thing, name, during), lambda: setattr(thing, name, after))

    def lose_power(away_s: float) -> None:
        device.reboot(away_s)
        timeline.at(now() + away_s, device.boot, mends=True)

    def assign(nonfinite: float) -> None:
        assert device.updates is not None, "a scenario with a release says device.updates"
        device.updates.assign(nonfinite)

    by_itself = Means(lambda _: None)  # the device does it all the time, as its spec says
    return {
        ("air", "warms"): by_itself,
        ("battery", "drains"): by_itself,
        ("die", "hot"): Means(
            lambda amount: setattr(device.machine, "held_c", amount),
            lambda: setattr(device.machine, "held_c", None),
        ),
        ("release", "good"): Means(assign),
        ("release", "bad"): Means(assign),
        ("device", "reboots"): Means(lose_power),
        ("lens", "covered"): put(renderer, "covered", during=True, after=False),
        ("pose", "silent"): put(monitor, "speaks", during=False, after=True),
        ("map", "silent"): put(monitor, "maps", during=False, after=True),
        ("link", "lost"): Means(lose, find),
        ("link", "frozen"): Means(lambda _: setattr(uplink, "frozen", True), thaw),
        ("link", "flapping"): Means(lambda _: uplink.cut()),
        ("link", "slow"): Means(lambda amount: become(bytes_per_s=amount), become),
        ("link", "late"): Means(lambda amount: become(late_s=amount), become),
        ("link", "portal"): Means(portal, through),
        ("broker", "restarts"): Means(restart),
        ("disk", "fills"): Means(lambda _: uplink.fill_disk(), uplink.free_disk),
        ("neighbour", "noisy"): Means(take_processor, lambda: take_processor(1.0)),
        ("clock", "steps"): Means(device.clock.step_wall),
        ("worker", "hung"): Means(lambda _: device.hang()),
        ("worker", "killed"): Means(lambda _: device.kill_worker()),
        ("guard", "stopped"): put(guarding, "stopped", during=True, after=False),
        ("guard", "killed"): Means(lambda _: device.kill_guard()),
        ("policy", "missing"): put(uplink, "policy", during=None, after=POLICY),
    }
