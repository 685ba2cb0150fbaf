"""Terminal reports leave a device by the director's word alone: whoever carries messages makes no end disappear."""

from collections.abc import Callable
from pathlib import Path

import pytest
from securesystemslib.signer import CryptoSigner

from tests.rigs.trusting_device import DEVICE
from tests.rigs.updating_device import UpdatingDevice


@pytest.fixture
def ended(tmp_path: Path) -> UpdatingDevice:
    """A device with one terminal report that the fleet has not heard."""
    device = UpdatingDevice(tmp_path / "updates")
    device.run_to_end(device.assign(device.release(1)))
    return device


def unsettled(device: UpdatingDevice) -> list[int]:
    device.run(3)
    assert device.driver is not None
    kept = list(device.driver.memory.reports.unsettled)
    assert len(kept) == len(list((device.folder / "reports").glob("*.terminal")))
    return kept


def number(device: UpdatingDevice) -> int:
    [found] = device.seen[1]
    return found


def test_the_directors_word_lets_it_go(ended: UpdatingDevice) -> None:
    ended.deliver(settled=[1])
    assert unsettled(ended) == []


@pytest.mark.parametrize(
    "forged",
    [
        lambda one: one.fleet.settle(DEVICE, [(1, number(one))], CryptoSigner.generate_ed25519()),
        lambda one: one.fleet.settle(DEVICE, [(1, number(one))], one.fleet.signers["timestamp"][0]),
        lambda one: one.fleet.settle("cam-08", [(1, number(one))]),
        lambda one: one.fleet.settle(DEVICE, [(1, number(one) + 1), (2, number(one))]),
        lambda one: one.fleet.assign(DEVICE, "7c" * 32, 1, None),
        lambda _one: b"{}",
    ],
    ids=[
        "a stranger's key",
        "a stolen timestamp key",
        "another device's",
        "another report",
        "other type",
        "rubbish",
    ],
)
def test_what_the_director_did_not_sign_about_it_lets_nothing_go(
    ended: UpdatingDevice, forged: Callable[[UpdatingDevice], bytes]
) -> None:
    """Assignment numbers are no secret: a broker that named one deleted the report, and the server saw STUCK."""
    ended.deliver(settlement=forged(ended))
    assert unsettled(ended) == [1]
    ended.restart("boot")
    assert unsettled(ended) == [1]
    ended.deliver(settled=[1])
    assert unsettled(ended) == []


def test_forged_settlements_without_end_cost_little(ended: UpdatingDevice) -> None:
    asked, thief = ended.fleet.asked["timestamp.json"], CryptoSigner.generate_ed25519()
    for spare in range(2, 202):
        ended.deliver(settlement=ended.fleet.settle(DEVICE, [(1, spare)], thief))
        ended.run(1)
    assert ended.fleet.asked["timestamp.json"] - asked <= 8 + 200 / 30
    assert unsettled(ended) == [1]


def test_a_new_directors_word_counts_once_the_device_knows_it(ended: UpdatingDevice) -> None:
    """The device asks for newer metadata by itself: nothing else may be due for a year."""
    ended.fleet.rotate("director")
    ended.deliver(settlement=ended.fleet.settle(DEVICE, [(1, number(ended))]))
    assert unsettled(ended) == []


def test_a_settlement_that_came_while_nothing_was_trusted_is_not_forgotten(ended: UpdatingDevice) -> None:
    root = (ended.folder / "root.json").read_bytes()
    (ended.folder / "root.json").unlink()
    ended.deliver(settled=[1])
    assert unsettled(ended) == [1]
    (ended.folder / "root.json").write_bytes(root)
    ended.run(60)
    assert unsettled(ended) == []
