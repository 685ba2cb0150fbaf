"""One example of every record that crosses the network, every optional field set: what the golden bytes are of.

    python -m tests.rigs.wire_records    writes tests/protocol/golden anew

What is signed has golden bytes too: a signature is over the bytes, so that another spelling would void it. The
bytes of a released version never change; a new minor version gets a folder of its own.
"""

import base64
from pathlib import Path
from typing import Any

from edge_runtime.protocol import EventRecord, WireRecord
from edge_runtime.protocol.decision import DecisionReceipt, EvidenceGrant
from edge_runtime.protocol.delivery import (
    ApprovedEvent,
    BundleItem,
    EventBundle,
    Ledger,
    OutcomeRange,
    Outcomes,
    Presence,
    Receipt,
    Rejection,
    Sync,
)
from edge_runtime.protocol.operation import (
    CameraHealth,
    Command,
    CommandResult,
    GateCounts,
    Health,
    HeldItem,
    HeldList,
    LinkSignals,
)
from edge_runtime.protocol.release import Bundle, ReleaseTerms, SignedRecord, canonical
from edge_runtime.protocol.update import (
    ASSIGNMENT_TYPE,
    REPORT_TYPE,
    SETTLED_TYPE,
    Assignment,
    Settled,
    StateReport,
)
from edge_runtime.protocol.update_wire import Desired, StateReports

GOLDEN = Path(__file__).resolve().parent.parent / "protocol" / "golden"

DEVICE = "dock-camera-7"
EPOCH = "0190a5d0-3c5e-7a11-8a0b-1c2d3e4f5a6b"
KEY = bytes(range(16))
SHA = "ab" * 32
AT: dict[str, Any] = {
    "monotonic_ns": 123_456_789_012,
    "media_s": 12.5,
    "wall": "2026-03-01T08:30:00.125Z",
    "synced": True,
    "boot_id": "0f1e2d3c-0000-4000-8000-000000000000",
}

EVENT = EventRecord.model_validate(
    {
        "id": "0190a5d0-0000-7000-8000-000000000001",
        "revision": 2,
        "state": "ended",
        "kind": "zone_leave",
        "rule": "loading-bay",
        "camera": "dock",
        "epoch": 3,
        "sequence": 4711,
        "severity": "warning",
        "data_class": "internal",
        "started": AT,
        "at": AT,
        "deadline_ms": 1000.0,
        "latency_ms": 41.25,
        "late": False,
        "ttl_s": 86_400.0,
        "label": "person",
        "track": 12,
        "confidence": 0.875,
        "box": {"x1": 1.5, "y1": 2.0, "x2": 30.25, "y2": 80.0},
        "direction": "left_to_right",
        "count": 2,
        "duration_s": 3.5,
        "reason": "left the zone",
        "evidence": {"name": "000000000012-abababababababab.jpg", "sha256": SHA, "bytes": 4096},
        "model": "sha256:" + "cd" * 32,
        "config": "sha256:" + "ef" * 32,
    }
)

GRANT = EvidenceGrant.model_validate({"mode": "redacted", "name": f"{SHA}.jpg", "sha256": SHA, "bytes": 2048})

DECISION = DecisionReceipt.model_validate(
    {
        "id": "0190a5d0-0000-7000-8000-000000000002",
        "event": EVENT.id,
        "revision": 2,
        "decision": "send",
        "reasons": ["permitted", "recipient_refuses_class"],
        "rule": "loading-bay",
        "camera": "dock",
        "severity": "warning",
        "data_class": "internal",
        "permit": "safety-alerts",
        "recipients": ["fleet"],
        "purpose": "safety",
        "evidence": GRANT,
        "policy": "sha256:" + "12" * 32,
        "at": AT,
        "by": "Ada",
        "note": "looked at it",
    }
)

LEDGER = Ledger(accepted=10, queued=3, delivered=2, expired=1, evicted=1, rejected=2, lost=1)

SALT = "00112233445566778899aabbccddeeff"
PACKAGE = "sha256:" + "34" * 32
RUNNING: dict[str, Any] = {"sha256": SHA, "counter": 41, "package": PACKAGE}
FACTS: dict[str, Any] = {
    "hardware": ("nvidia,p3768-0000+p3767-0005", "dock-cam", "generic"),
    "architecture": "aarch64",
    "compute_capability": "8.7",
    "l4t": "36.4.0",
    "tensorrt": "10.3.0",
    "runtime": "0.3.0",
    "memory_mb": 7_620,
}

SIGNED: dict[str, SignedRecord] = {
    "settled": Settled.model_validate({"device": DEVICE, "ends": ({"seq": 15, "report_no": 1902},)}),
    "bundle_json": Bundle.model_validate(
        {
            "kind": "model",
            "name": "yolox-dock",
            "files": (
                {"path": "CARD.md", "sha256": "56" * 32, "bytes": 900},
                {"path": "golden/expected.npz", "sha256": "78" * 32, "bytes": 40_960},
                {"path": "manifest.json", "sha256": SHA, "bytes": 2_048},
            ),
        }
    ),
    "terms": ReleaseTerms.model_validate(
        {
            "kind": "model",
            "name": "yolox-dock",
            "counter": 42,
            "package": PACKAGE,
            "labels": ("person", "forklift"),
            "relabels": True,
            "licence": "Apache-2.0",
            "total_bytes": 43_908,
            "fit": {
                "hardware": ("dock-cam",),
                "architectures": ("aarch64",),
                "compute_capabilities": ("8.7",),
                "l4t": {"at_least": "36.3", "below": "37"},
                "tensorrt": {"at_least": "10.0", "below": "11"},
                "runtime": {"at_least": "0.3", "below": "1"},
                "memory_mb": 4_096,
            },
            "rollback_to": (SHA,),
            "salt": SALT,
            "openings": (
                {"basis_points": 200, "not_before_ms": 1_772_356_200_000},
                {"basis_points": 10_000, "not_before_ms": 1_772_442_600_000},
            ),
            "probation": {"max_latency_ms": 40.5},
            "trackers": "continue",
            "accepts_drop": "fewer classes",
            "notes": "night shifts",
        }
    ),
    "assignment": Assignment.model_validate(
        {
            "device": DEVICE,
            "key_sha256": "9a" * 32,
            "seq": 17,
            "slot": "m",
            "action": "install",
            "rollout": "ro-7",
            "stage": 2,
            "target": "models/yolox-dock/42/bundle.json",
            "length": 611,
            "sha256": SHA,
            "root_version": 3,
            "snapshot_version": 12,
            "issued_ms": 1_772_356_200_000,
            "expires_ms": 1_772_961_000_000,
            "nonce": "0f" * 16,
            "values": {"threshold": 0.5, "zone": "dock-3", "night": True, "limit": 4},
        }
    ),
    "state_report": StateReport.model_validate(
        {
            "device": DEVICE,
            "boot_id": AT["boot_id"],
            "report_no": 230,
            "seq": 17,
            "slot": "m",
            "state": "reverted",
            "terminal": True,
            "code": "probation-latency",
            "text": "the 95th percentile was 61 ms, 24 ms before",
            "left": "reverted",
            "rollout": "ro-7",
            "running": RUNNING,
            "previous": {**RUNNING, "counter": 42},
            "facts": FACTS,
            "done_bytes": 43_908,
            "of_bytes": 43_908,
            "time_floor_ms": 1_772_356_100_000,
            "at_ms": 1_772_356_200_125,
            "clock_synced": True,
            "nonce": "f0" * 16,
        }
    ),
}


def _sealed(name: str, kind: str) -> bytes:
    """An envelope as `protocol.envelope.seal` spells it, with a signature that is none: a real one is random."""
    payload = base64.b64encode(SIGNED[name].canonical_bytes()).decode()
    signature = {"keyid": "bc" * 32, "sig": base64.b64encode(b"signature").decode()}
    return canonical({"payload": payload, "payloadType": kind, "signatures": [signature]})


RECORDS: dict[str, WireRecord] = {
    "desired": Desired(
        device=DEVICE,
        assignments=(_sealed("assignment", ASSIGNMENT_TYPE),),
        settled=_sealed("settled", SETTLED_TYPE),
    ),
    "state_reports": StateReports(device=DEVICE, reports=(_sealed("state_report", REPORT_TYPE),)),
    "evidence_grant": GRANT,
    "decision_receipt": DECISION,
    "approved_event": ApprovedEvent(event=EVENT, decision=DECISION),
    "bundle": EventBundle(
        device=DEVICE,
        epoch=EPOCH,
        items=(
            BundleItem(key=KEY, seq=41, left_ms=3_600_000, deadline_ms=1_772_356_200_000, body=b"body one"),
            BundleItem(key=KEY[::-1], seq=42, left_ms=0, body=b"body two"),
        ),
    ),
    "receipt": Receipt.model_validate(
        {
            "epoch": EPOCH,
            "high": 40,
            "accepted": ((42, 44), (46, 46)),
            "rejected": (
                Rejection.model_validate(
                    {
                        "seq": 45,
                        "key": KEY,
                        "code": "invalid",
                        "permanent": True,
                        "text": "not an ApprovedEvent",
                    }
                ),
            ),
            "credit": 8,
            "server_ms": 1_772_356_200_125,
        }
    ),
    "ledger": LEDGER,
    "sync": Sync(device=DEVICE, epoch=EPOCH, lowest=41, next=47, ledger=LEDGER),
    "outcomes": Outcomes.model_validate(
        {
            "device": DEVICE,
            "epoch": EPOCH,
            "ranges": (
                OutcomeRange.model_validate({"first": 3, "last": 9, "fate": "expired"}),
                OutcomeRange.model_validate({"first": 11, "last": 11, "fate": "evicted"}),
            ),
            "ledger": LEDGER,
        }
    ),
    "presence": Presence.model_validate(
        {
            "device": DEVICE,
            "session": 12,
            "state": "online",
            "boot_id": AT["boot_id"],
            "runtime": "0.3.0",
            "reason": "connected",
        }
    ),
    "health": Health(
        device=DEVICE,
        session=12,
        boot_id=AT["boot_id"],
        uptime_s=86_400.5,
        runtime="0.3.0",
        ledger=LEDGER,
        gate=GateCounts(sent=10, kept=4, held=2, released=1, dropped=1, held_expired=3, not_accepted=5),
        link=LinkSignals(round_trip_ms=42.5, loss=0.125, bytes_per_s=125_000.0, age_s=1.5),
        cameras=(CameraHealth(name="dock", state="running", evaluated=1000, dropped=3, age_ms=12.5),),
        degraded=("the disk is full",),
    ),
    "held_list": HeldList(
        device=DEVICE,
        total=1,
        items=(HeldItem(key=KEY.hex(), receipt=DECISION, left_ms=60_000, bytes=1500),),
    ),
    "command": Command.model_validate(
        {
            "id": "0190a5d0-0000-7000-8000-000000000003",
            "device": DEVICE,
            "kind": "release_held",
            "issued_ms": 1_772_356_200_000,
            "expires_ms": 1_772_356_800_000,
            "by": "Ada",
            "item": KEY.hex(),
            "note": "seen on site",
            "evidence": "redacted",
        }
    ),
    "command_result": CommandResult(
        id="0190a5d0-0000-7000-8000-000000000003", device=DEVICE, done=True, text="released to fleet"
    ),
}


def golden_file(name: str) -> Path:
    """Where the bytes of one record lie."""
    return GOLDEN / f"{name}.v1.msgpack"


def signed_bytes(record: SignedRecord) -> bytes:
    """What a signature is over: terms stand in TUF metadata, whose JSON knows no fractions."""
    return canonical(record.custom()) if isinstance(record, ReleaseTerms) else record.canonical_bytes()


def signed_file(name: str) -> Path:
    """Where the bytes of one signed record lie."""
    return GOLDEN / f"{name}.v1.json"


if __name__ == "__main__":
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, record in RECORDS.items():
        golden_file(name).write_bytes(record.encode(compress=False))
    for name, signed in SIGNED.items():
        signed_file(name).write_bytes(signed_bytes(signed))
