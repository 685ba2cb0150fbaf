"""A command of the fleet server meets the review of held items; the device's policy has the last word."""

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from edge_runtime.clock import NS_PER_S, SystemClock
from edge_runtime.config import LoadedConfig, load_config
from edge_runtime.gate.crops import store_crop
from edge_runtime.gate.opening import WHOLE
from edge_runtime.gate.receipts import approved_body
from edge_runtime.node.places import state_of
from edge_runtime.node.uplink_process import hands
from edge_runtime.outbox import OutboxClient, Submission
from edge_runtime.protocol import DecisionKind, uuid7
from edge_runtime.protocol.decision import DecisionReceipt
from edge_runtime.protocol.enrolment import BrokerAddress
from edge_runtime.protocol.operation import Command, CommandKind
from edge_runtime.uplink import LinkIdentity
from sim.ports import free_port
from tests.rigs.gate import event, jpeg
from tests.rigs.outbox import process
from tests.rigs.pki import Pki
from tests.rigs.uplinks import enrol_by_hand

POLICY = {
    "version": 1,
    "name": "site",
    "recipients": {"fleet": {"place": "organisation", "accepts": ["internal"], "purposes": ["operations"]}},
    "permits": [{"name": "none", "when": {"rules": ["nothing"]}, "to": ["fleet"], "purpose": "operations"}],
    "remote_review": {"classes": ["internal"], "evidence": "redacted"},
}
KEY = bytes(15) + b"\x07"


@pytest.fixture(name="loaded")
def _loaded(tmp_path: Path) -> LoadedConfig:
    camera = {"source": {"kind": "synthetic"}, "model": "m", "rules": [{"kind": "occupancy", "name": "r"}]}
    config = {
        "models": {"m": {"package": "nowhere"}},
        "cameras": {"yard": {**camera, "data_class": "internal"}},
        "delivery": {"state": "state", "policy": "policy.yaml"},
    }
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(POLICY), encoding="utf-8")
    path = tmp_path / "site.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return load_config(path)


def _no_renewal() -> LinkIdentity:
    raise AssertionError("nobody asked for a renewal")


def command(kind: CommandKind, **fields: object) -> Command:
    clock = SystemClock()
    wall_ms = clock.wall().unix_ns // 1_000_000
    return Command.model_validate(
        {
            "id": uuid7(clock.wall().unix_ns),
            "device": "cam-1",
            "kind": kind,
            "issued_ms": wall_ms,
            "expires_ms": wall_ms + 60_000,
            "by": "Ada",
            **fields,
        }
    )


def test_a_release_from_afar_lets_go_what_policy_lets_and_no_more(loaded: LoadedConfig) -> None:
    clock = SystemClock()
    state = state_of(loaded).ensure()
    seen = event(clock)
    held = DecisionReceipt.model_validate(
        {
            "id": uuid7(clock.wall().unix_ns),
            "event": seen.id,
            "revision": 1,
            "decision": "hold",
            "reasons": ["no_permit"],
            **{name: getattr(seen, name) for name in ("rule", "camera", "severity", "data_class", "at")},
        }
    )
    crop = store_crop(jpeg(3), state)
    item = Submission(
        KEY,
        DecisionKind.HOLD,
        2,
        3600 * NS_PER_S,
        approved_body(seen, held),
        receipt=held.encode(),
        evidence=crop,
    )
    with (
        process(state),
        contextlib.closing(OutboxClient(state.outbox_socket, clock)) as client,
    ):
        assert client.put([item])[0].accepted
        given = hands(loaded, state, client, _no_renewal)
        whole = command(CommandKind.RELEASE_HELD, item=KEY.hex(), note="seen", evidence="crop")
        refused = given.review(whole)
        assert (refused.done, "redacted" in refused.text) == (False, True)
        assert not given.review(command(CommandKind.RELEASE_HELD, item=KEY.hex())).done
        assert not given.review(command(CommandKind.REPORT_HEALTH, item=KEY.hex(), note="x")).done
        wish = command(CommandKind.RELEASE_HELD, item=KEY.hex(), note="seen", evidence="redacted")
        assert given.review(wish).text == f"released; {WHOLE}"
        status = client.status()
        assert (status.held, status.ledger.queued) == (0, 1)
        (queued,) = client.lease(1, 100_000)
    assert crop.sha256.encode() not in queued.body
    assert b"redacted" in queued.body


def test_sigterm_ends_it_cleanly_although_libraries_started_threads(
    loaded: LoadedConfig, tmp_path: Path
) -> None:
    """Threads that NumPy starts on import do not block the signal: the kernel ended the process through one."""
    state = state_of(loaded).ensure()
    nobody = BrokerAddress(host="localhost", port=free_port())
    enrol_by_hand(state, Pki(tmp_path / "pki").device("cam-1"), nobody)
    words = [sys.executable, "-m", "edge_runtime.node.uplink_process", "--config", str(loaded.path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as uplink:
        assert uplink.stdout is not None
        assert uplink.stdout.readline() == b"ready\n"
        uplink.send_signal(signal.SIGTERM)
        assert uplink.wait(30) == 0
