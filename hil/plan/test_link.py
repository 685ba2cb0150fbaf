"""A link that is away for a day, or poor: nothing that was accepted is lost, nothing arrives twice."""

from hil.device_parts import Queue
from hil.parts import ByteCounter, NetworkLink
from hil.plugin import Measure
from hil.rig import Rig
from sim.network import Impairment

PORTIONS, PORTION = 12, 20
DRAIN_S = 120.0
POOR = Impairment(delay_s=0.3, bytes_per_s=30_000.0)


def test_a_day_without_a_link(rig: Rig, network: NetworkLink, queue: Queue, measure: Measure) -> None:
    """Events wait, and all of them arrive once the link is back."""
    with rig.clock.long_run("hours"):
        there, twice = queue.at_server()
        network.cut()
        accepted = 0
        for _ in range(PORTIONS):
            accepted += queue.load(PORTION)
            rig.clock.wait(rig.file.times.offline / PORTIONS)
        waiting = queue.fates().queued
        network.heal()
        drained = rig.until(lambda: queue.fates().queued == 0, rig.file.times.settle + DRAIN_S)
        fates, after = queue.fates(), queue.at_server()
    measure("offline_accepted", float(accepted), "events", at_least=PORTIONS * PORTION)
    measure("offline_waiting", float(waiting), "events", at_least=accepted)
    measure("offline_drained", drained, "s", at_most=DRAIN_S)
    measure("offline_missing", float(accepted - (after[0] - there)), "events", at_most=0)
    measure("offline_twice", float(after[1] - twice), "events", at_most=0)
    measure("ledger_balances", float(fates.balances), "yes", at_least=1)


def test_a_poor_link(rig: Rig, network: NetworkLink, queue: Queue, measure: Measure) -> None:
    """Late and narrow: events arrive later, and all of them."""
    there, twice = queue.at_server()
    network.become(POOR)
    accepted = queue.load(PORTIONS * PORTION)
    drained = rig.until(lambda: queue.fates().queued == 0, DRAIN_S)
    network.heal()
    after = queue.at_server()
    measure("poor_link_drained", drained, "s", at_most=DRAIN_S)
    measure("poor_link_missing", float(accepted - (after[0] - there)), "events", at_most=0)
    measure("poor_link_twice", float(after[1] - twice), "events", at_most=0)


def test_what_an_event_costs(rig: Rig, byte_counter: ByteCounter, queue: Queue, measure: Measure) -> None:
    """Bytes that leave the device for each event, all protocols and the device's own reports included."""
    rig.until(lambda: queue.fates().queued == 0, DRAIN_S)
    before = byte_counter.sent_bytes()
    accepted = queue.load(PORTIONS * PORTION)
    drained = rig.until(lambda: queue.fates().queued == 0, DRAIN_S)
    measure("steady_drained", drained, "s", at_most=DRAIN_S)
    sent = byte_counter.sent_bytes() - before
    measure("bytes_per_event", sent / max(1, accepted), "bytes", at_most=2500)
