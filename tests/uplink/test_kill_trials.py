"""Kills at random times, again and again: every accepted event arrives once, and the ledger balances."""

import random
import time
from pathlib import Path

import pytest

from tests.rigs.brokers import KINDS, running_broker, wait_until
from tests.rigs.fake_receipts import ReceiptingPeer
from tests.rigs.uplinks import DeviceProcesses, submissions

KILLS = 20


@pytest.mark.trial
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("victim", ["uplink", "broker", "outbox", "server"])
def test_twenty_kills_cost_no_event(tmp_path: Path, kind: str, victim: str) -> None:
    rng = random.Random(f"{kind} {victim}")
    with running_broker(kind, tmp_path / "broker", ["dev-1"]) as broker:
        peer = ReceiptingPeer(broker).start()
        with DeviceProcesses(tmp_path, broker.parties["dev-1"], broker.host, broker.port) as device:
            keys: list[bytes] = []
            for _ in range(KILLS):
                keys += device.put(submissions(rng.randrange(50, 400)))
                time.sleep(rng.uniform(0.0, 0.4))
                if victim == "uplink":
                    device.kill_uplink()
                    device.start_uplink()
                elif victim == "broker":
                    broker.kill()
                    keys += device.put(submissions(20))
                    broker.start()
                elif victim == "outbox":
                    device.kill_outbox()
                    device.start_outbox()
                else:
                    peer.stop()
                    keys += device.put(submissions(20))
                    peer.start()
            assert wait_until(lambda: device.client.status().ledger.queued == 0, 60)
            ledger = device.client.status().ledger
            assert ledger.balances
            assert ledger.delivered == ledger.accepted == len(keys)
            assert set(peer.rows("dev-1")) == set(keys)
            assert device.uplink is not None
            assert device.uplink.poll() is None
            assert "Traceback" not in device.log
            assert "error" not in device.log.lower().replace("unspecified error", "")
        peer.stop()
        assert peer.defects == []
