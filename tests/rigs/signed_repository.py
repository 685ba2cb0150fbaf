"""A fleet's TUF repository in memory, with all its keys: the road of a device's metadata, and its attacker.

Built on `tuf.api.metadata` alone, apart from the fleet server's code, so that a defect there cannot hide in both.
In the manner of python-tuf's `RepositorySimulator`: change what is signed, `publish`, and let a device refresh.
"""

import contextlib
import copy
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from securesystemslib.signer import CryptoSigner, Signer
from tuf.api.metadata import (
    DelegatedRole,
    Delegations,
    Metadata,
    MetaFile,
    Root,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)

from edge_runtime.clock import SystemClock
from edge_runtime.protocol.envelope import seal
from edge_runtime.protocol.release import (
    Bundle,
    BundleFile,
    Opening,
    ReleaseKind,
    ReleaseTerms,
    target_path,
)
from edge_runtime.protocol.update import (
    ASSIGNMENT_TYPE,
    SETTLED_TYPE,
    Assignment,
    Settled,
    SettledEnd,
    UpdateAction,
    UpdateCode,
)
from edge_runtime.updates.trust.fetch import FetchFailed, Get

DAY = timedelta(days=1)
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
TOP = ("root", "timestamp", "snapshot", "targets")
RELEASES = ("models", "configurations")


def now() -> datetime:
    """The machine's time: tuf's own client judges by it."""
    return datetime.fromtimestamp(SystemClock().wall().unix_ns / 1e9, tz=timezone.utc).replace(microsecond=0)


def now_ms() -> int:
    """The same in milliseconds since 1970."""
    return SystemClock().wall().unix_ns // 1_000_000


def sha256(data: bytes) -> str:
    """Hex SHA-256."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class SignedRelease:
    """A release that the repository lists.

    Attributes:
        bundle: bytes of bundle.json.
    """

    terms: ReleaseTerms
    bundle: bytes

    @property
    def sha256(self) -> str:
        return sha256(self.bundle)


class SignedRepository:
    """Root 2 of 3, targets 2 of 3, models and configurations builder and approver, director a key without metadata.

    Metadata that was published lies in `files`, as a server would serve it. Changes of the records below show only
    after `publish`.

    Attributes:
        signers: who signs each role; steal from here.
        root, timestamp, snapshot, targets: unsigned content of the next version.
        roles: of `models` and `configurations`.
        releases: what was added, by target path.
        files: published metadata, by name.
        asked: how often each file was asked for.
        replaced: other bytes for a name, as an attacker on the road gives them.
        refused: HTTP statuses for a name.
        failing: what a fetch of a name raises.
        endless: names that never end; as much as is asked for is given, and one byte.
    """

    def __init__(self) -> None:
        self.signers: dict[str, list[CryptoSigner]] = {
            "root": _keys(3),
            "targets": _keys(3),
            "snapshot": _keys(1),
            "timestamp": _keys(1),
            "models": _keys(2),
            "configurations": _keys(2),
            "director": _keys(1),
        }
        self.root = Root(expires=now() + 365 * DAY, consistent_snapshot=True)
        self.targets = Targets(expires=now() + 180 * DAY)
        self.snapshot = Snapshot(expires=now() + 14 * DAY)
        self.timestamp = Timestamp(expires=now() + 2 * DAY)
        self.roles = {role: Targets(expires=now() + 90 * DAY) for role in RELEASES}
        self._name_root_keys()
        self._delegate()
        self.releases: dict[str, SignedRelease] = {}
        self.files: dict[str, bytes] = {}
        self.asked: Counter[str] = Counter()
        self.clear_attack()
        self._publish_root()
        self.snapshot.meta = {f"{role}.json": MetaFile(1) for role in ("targets", *RELEASES)}
        for role in ("targets", *RELEASES):
            self._publish_targets(role)
        self._publish_online()

    # what people do

    def release(
        self,
        counter: int,
        name: str = "detector",
        *,
        kind: ReleaseKind = ReleaseKind.MODEL,
        publish: bool = True,
        **terms: Any,
    ) -> SignedRelease:
        """Sign a release, open to everybody unless `openings` says otherwise; `terms` are of `ReleaseTerms`."""
        signed = make_release(counter, name, kind=kind, **terms)
        self.list_release(signed)
        if publish:
            self.publish(kind.role)
        return signed

    def list_release(self, signed: SignedRelease, path: str | None = None) -> None:
        """List a release, at a path that need not be its own."""
        path = path or signed.terms.target
        target = TargetFile.from_data(path, signed.bundle, ["sha256"])
        target.unrecognized_fields["custom"] = signed.terms.custom()
        self.roles[signed.terms.kind.role].targets[path] = target
        self.releases[path] = signed

    def publish(self, *roles: str) -> None:
        """Next version of some roles (targets and releases if none is named), and of the online ones."""
        for role in roles or ("targets", *RELEASES):
            if role == "root":
                self.root.version += 1
                self._publish_root()
            else:
                self._record(role).version += 1
                self._publish_targets(role)
        self.snapshot.version += 1
        self.timestamp.version += 1
        self._publish_online()

    def rotate(self, role: str) -> list[CryptoSigner]:
        """New keys for a role, named by who names them; the old ones are returned. `publish` follows by the caller.

        After `rotate("root")` the next root is signed by the old and by the new keys.
        """
        old, self.signers[role] = self.signers[role], _keys(len(self.signers[role]))
        if role in TOP:
            self._name_root_keys()
            self.root.version += 1
            self._publish_root(also=old[:2] if role == "root" else [])
        else:
            self._delegate()
            self.publish("targets")
        return old

    def assign(
        self,
        device: str,
        key_sha256: str,
        seq: int,
        release: SignedRelease | None,
        *,
        slot: str = "detector",
        action: UpdateAction | None = None,
        signer: Signer | None = None,
        **fields: Any,
    ) -> bytes:
        """An assignment in its envelope, signed by the director or by `signer`; HOLD where there is no release."""
        named: dict[str, Any] = {}
        if release is not None:
            named = {
                "target": release.terms.target,
                "length": len(release.bundle),
                "sha256": release.sha256,
            }
        chosen = action or (UpdateAction.HOLD if release is None else UpdateAction.INSTALL)
        record = {
            "device": device,
            "key_sha256": key_sha256,
            "seq": seq,
            "slot": slot,
            "action": chosen,
            "issued_ms": now_ms(),
            "expires_ms": now_ms() + 7 * DAY_MS,
            **named,
            **fields,
        }
        return seal(Assignment.model_validate(record), ASSIGNMENT_TYPE, signer or self.signers["director"][0])

    def settle(self, device: str, ends: Iterable[tuple[int, int]], signer: Signer | None = None) -> bytes:
        """That reports arrived, as numbers of assignment and report, signed by the director or by `signer`."""
        settled = tuple(SettledEnd(seq=seq, report_no=number) for seq, number in ends)
        return seal(Settled(device=device, ends=settled), SETTLED_TYPE, signer or self.signers["director"][0])

    # what thieves do

    def forge(
        self, signed: Root | Targets | Snapshot | Timestamp, signers: Sequence[Signer], name: str
    ) -> bytes:
        """Put metadata under a name, signed by whoever signs; its bytes are returned."""
        data = _signed(signed, signers)
        self.files[name] = data
        return data

    def publish_online(self) -> None:
        """Sign what snapshot and timestamp say at the moment, as whoever holds their keys can."""
        self._publish_online()

    def copy(self) -> "SignedRepository":
        """The same repository with the same keys, as a thief or a backup has it; publishes apart from this one."""
        other = copy.copy(self)
        for name in ("root", "targets", "snapshot", "timestamp", "roles", "files", "releases"):
            setattr(other, name, copy.deepcopy(getattr(self, name)))
        other.signers = {role: list(keys) for role, keys in self.signers.items()}
        other.asked = Counter()
        other.clear_attack()
        return other

    # the road

    def clear_attack(self) -> None:
        """An honest road again."""
        self.replaced: dict[str, bytes] = {}
        self.refused: dict[str, int] = {}
        self.failing: dict[str, FetchFailed] = {}
        self.endless: set[str] = set()

    @contextlib.contextmanager
    def conversation(self) -> Iterator[Get]:
        """Be the `Fetch` of a device."""
        yield self._get

    def _get(self, name: str, max_bytes: int) -> bytes:
        self.asked[name] += 1
        if name in self.failing:
            raise self.failing[name]
        data = (
            b"0" * (max_bytes + 1) if name in self.endless else self.replaced.get(name, self.files.get(name))
        )
        status = 404 if data is None else self.refused.get(name)
        if data is None or status is not None:
            raise FetchFailed(UpdateCode.METADATA_UNAVAILABLE, f"{name}: {status}", status)
        if len(data) > max_bytes:
            raise FetchFailed(UpdateCode.METADATA_INVALID, f"{name} is longer than {max_bytes} bytes")
        return data

    def write_to(self, folder: Path) -> None:
        """The published files in a folder, for a web server."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self.files.items():
            (folder / name).write_bytes(data)

    # how it is signed

    def _record(self, role: str) -> Targets:
        return self.targets if role == "targets" else self.roles[role]

    def _name_root_keys(self) -> None:
        for role in TOP:
            self.root.roles[role].keyids.clear()
        self.root.keys.clear()
        for role in TOP:
            for signer in self.signers[role]:
                self.root.add_key(signer.public_key, role)
            self.root.roles[role].threshold = min(2, len(self.signers[role]))

    def _delegate(self) -> None:
        paths = {**{role: [f"{role}/*/*/*"] for role in RELEASES}, "director": ["director/*"]}
        self.targets.delegations = Delegations(
            {key.public_key.keyid: key.public_key for role in paths for key in self.signers[role]},
            {
                role: DelegatedRole(
                    role,
                    [key.public_key.keyid for key in self.signers[role]],
                    len(self.signers[role]),
                    True,
                    paths=pattern,
                )
                for role, pattern in paths.items()
            },
        )

    def _publish_root(self, also: Sequence[Signer] = ()) -> None:
        self.forge(self.root, [*self.signers["root"][:2], *also], f"{self.root.version}.root.json")

    def _publish_targets(self, role: str) -> None:
        record = self._record(role)
        data = self.forge(record, self.signers[role][:2], f"{record.version}.{role}.json")
        self.snapshot.meta[f"{role}.json"] = _meta(record.version, data)

    def _publish_online(self) -> None:
        data = self.forge(self.snapshot, self.signers["snapshot"], f"{self.snapshot.version}.snapshot.json")
        self.timestamp.snapshot_meta = _meta(self.snapshot.version, data)
        self.forge(self.timestamp, self.signers["timestamp"], "timestamp.json")


def make_release(
    counter: int, name: str = "detector", *, kind: ReleaseKind = ReleaseKind.MODEL, **terms: Any
) -> SignedRelease:
    """A release that nobody has signed yet; its content follows from its name and counter."""
    weights = f"weights of {name} {counter}".encode()
    path = "model.onnx" if kind is ReleaseKind.MODEL else "overlay.yaml"
    bundle = Bundle(
        kind=kind, name=name, files=(BundleFile(path=path, sha256=sha256(weights), bytes=len(weights)),)
    )
    record: Mapping[str, Any] = {
        "kind": kind,
        "name": name,
        "counter": counter,
        "package": f"sha256:{sha256(weights)}" if kind is ReleaseKind.MODEL else None,
        "total_bytes": bundle.total_bytes,
        "salt": "5a" * 8,
        "openings": (Opening(basis_points=10_000),),
        **terms,
    }
    found = ReleaseTerms.model_validate(record)
    assert found.target == target_path(kind, name, counter)
    return SignedRelease(found, bundle.canonical_bytes())


def _keys(count: int) -> list[CryptoSigner]:
    return [CryptoSigner.generate_ed25519() for _ in range(count)]


def _signed(signed: Root | Targets | Snapshot | Timestamp, signers: Sequence[Signer]) -> bytes:
    metadata: Metadata[Any] = Metadata(copy.deepcopy(signed))
    for signer in signers:
        metadata.sign(signer, append=True)
    return metadata.to_bytes()


def _meta(version: int, data: bytes) -> MetaFile:
    return MetaFile(version, len(data), {"sha256": sha256(data)})
