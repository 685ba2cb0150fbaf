"""A virtual fleet through partitions, kills and lost power: do both sides agree? `make soak` has 2,000 devices."""

import uuid
from pathlib import Path

import pytest

from edge_runtime.protocol.vocabulary import Fate
from edge_runtime.uplink.settings import UplinkSettings
from sim.fleet_trial import FleetTrial, Options
from sim.road import Server
from sim.virtual.accounts import ServerSide, compare
from sim.virtual.members import enrol_many
from tests.rigs.roads import ONE

DEVICES = 50
QUICK = UplinkSettings(
    base_s=0.2,
    cap_s=2.0,
    short_s=0.05,
    retry_first_s=1.0,
    retry_cap_s=4.0,
    silence_s=4.0,
    report_period_s=0.5,
)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("server", ONE[:1], indirect=True)
def test_both_sides_agree_after_everything(server: Server, tmp_path: Path) -> None:
    """The short form: one server that other tests use as well, so its head stays alive."""
    members = enrol_many(server.data, [f"many-{number}" for number in range(DEVICES)])
    options = Options(
        seconds=3.0, every_s=0.15, arrive_s=1.0, restarts_server=False, uplink=QUICK, patience_s=90.0
    )
    trial = FleetTrial(server, members, tmp_path, options)
    with trial.online():
        outcome = trial.run()
    accounts = outcome.accounts
    assert accounts.agrees, (accounts, outcome.log)
    assert accounts.accepted > DEVICES
    assert accounts.queued == 0
    assert accounts.given_up > 0, "small queues behind a cut give events up, and both sides know of it"
    assert outcome.sessions > DEVICES + DEVICES // 4, "sessions broke"
    assert [text for _, text in outcome.log][-1] == "no more events"

    # and what is compared can be wrong: one row too few, one too many, one ledger that was never told
    queues = {sender.name: sender.queue for sender in trial.fleet.senders}
    side = ServerSide.read(server.database, list(queues))
    name, queue = next((name, one) for name, one in queues.items() if one.ended[Fate.DELIVERED])
    gone = next(iter(queue.ended[Fate.DELIVERED]))
    for changed, wrong in (
        (side.keys[name] - {gone}, "missing"),
        (side.keys[name] | {uuid.uuid4().bytes}, "strangers"),
    ):
        found = compare(queues, ServerSide({**side.keys, name: changed}, 0, side.books))
        assert (getattr(found, wrong), found.agrees) == (1, False)
    books = {device: book for device, book in side.books.items() if device != name}
    assert compare(queues, ServerSide(side.keys, 0, books)).books_differ == 1
    assert not compare(queues, ServerSide(side.keys, 1, side.books)).agrees
