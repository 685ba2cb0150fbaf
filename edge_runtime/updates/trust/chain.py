"""The chain of signatures from a trusted root to what people signed: pure, over bytes, without a clock.

tuf's `Updater` walks this chain when it fetches. It reads the machine's own clock while it does, and refuses to
work without a network, so a device that is offline or whose clock is wrong could admit nothing by it. This walks
the same chain over the files that the `Updater` left, by tuf's own records and signature checks; what the time
means for them is decided in `moment`. `tests/updates/trust/test_oracle.py` holds the two against each other.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from securesystemslib.signer import Signature
from tuf.api.exceptions import RepositoryError
from tuf.api.metadata import Metadata, MetaFile, Root, Signed, Snapshot, Targets, Timestamp

from edge_runtime.errors import first_line
from edge_runtime.protocol.release import canonical
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.trust.listing import MALFORMED, Listing, read_listing

SignedT = TypeVar("SignedT", bound=Signed)


@dataclass(frozen=True, slots=True)
class KeptMetadata:
    """Metadata as it lies on the disk, not verified.

    Attributes:
        anchor: the root that is trusted without another's signature.
        roots: later roots, by version; only successive ones are looked at.
        files: the other metadata, by role.
    """

    anchor: bytes
    roots: Mapping[int, bytes]
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Chain:
    """Verified top-level metadata, whether or not it has expired.

    Attributes:
        root_sha256: of the root's file.
    """

    root: Root
    root_sha256: str
    timestamp: Timestamp
    snapshot: Snapshot
    targets: Targets

    def versions(self) -> dict[str, int]:
        """Version of each role that the snapshot lists, and of root, timestamp and snapshot."""
        listed = {name.removesuffix(".json"): meta.version for name, meta in self.snapshot.meta.items()}
        own = {signed.type: signed.version for signed in (self.root, self.timestamp, self.snapshot)}
        return {**listed, **own}

    def ends_ms(self) -> dict[str, int]:
        """When each of the four ends, milliseconds since 1970."""
        return {part.type: end_ms(part) for part in (self.root, self.timestamp, self.snapshot, self.targets)}

    def lists(self, role: str) -> bool:
        """Whether the snapshot knows metadata of a role; the director has none."""
        return f"{role}.json" in self.snapshot.meta


def end_ms(signed: Signed) -> int:
    """When metadata ends, milliseconds since 1970."""
    return round(signed.expires.timestamp() * 1000)


def newest_root(kept: KeptMetadata) -> tuple[Root, bytes]:
    """The last root that the anchor leads to, with its file.

    Raises:
        UpdateRefused: METADATA_INVALID: the anchor itself is no root that its own keys signed.
    """
    data = kept.anchor
    root = _load(Root, data, None, "root")
    while (following := kept.roots.get(root.version + 1)) is not None:
        try:
            newer = _load(Root, following, root, "root")
        except UpdateRefused:
            break  # as a file that is not there: the next refresh fetches it again
        if newer.version != root.version + 1:
            break
        root, data = newer, following
    return root, data


def verify_chain(kept: KeptMetadata) -> Chain:
    """Verify the top-level metadata, each by the one before it.

    Raises:
        UpdateRefused: METADATA_UNAVAILABLE: a file is missing; METADATA_INVALID: it is not what was signed.
    """
    root, data = newest_root(kept)
    timestamp = _load(Timestamp, _file(kept, "timestamp"), root, "timestamp")
    snapshot = _listed(Snapshot, _file(kept, "snapshot"), timestamp.snapshot_meta, root, "snapshot")
    targets = _listed(Targets, _file(kept, "targets"), _meta(snapshot, "targets"), root, "targets")
    return Chain(root, hashlib.sha256(data).hexdigest(), timestamp, snapshot, targets)


def verify_role(chain: Chain, kept: KeptMetadata, role: str) -> Listing:
    """Verify the metadata of a role that the top-level targets delegate to.

    Raises:
        UpdateRefused: METADATA_UNAVAILABLE: nobody published any, or the file is missing; METADATA_INVALID.
    """
    data, meta = _file(kept, role), _meta(chain.snapshot, role)
    _require_listed(data, meta, role)
    try:
        found = _as_signed(data, role, chain.targets) or _listing(_load(Targets, data, chain.targets, role))
    except MALFORMED as error:
        raise _invalid(role, f"cannot be trusted: {first_line(error)}") from None
    _require_version(found.signed, meta, role)
    return found


def _as_signed(data: bytes, role: str, delegator: Targets) -> Listing | None:
    """Metadata whose file holds the very bytes that were signed, or None where it is to be looked at by tuf.

    tuf makes a record of each target and text of all records again: of a thousand releases, a device is asked for
    one. What the fleet's server publishes is compact and sorted, and so has the canonical form in it. Only what the
    signatures are over is read: nothing beside it in the file counts.
    """
    head, mark, rest = data.partition(b',"signed":')
    if not mark or not head.startswith(b'{"signatures":[') or not rest.endswith(b"}}"):
        return None
    said = rest[:-1]
    signatures = [Signature.from_dict(one) for one in json.loads(head + b"}")["signatures"]]
    by_key = {one.keyid: one for one in signatures}
    if len(by_key) < len(signatures) or not delegator.get_verification_result(role, said, by_key):
        return None
    return read_listing(said)


def _listing(signed: Targets) -> Listing:
    """The same of metadata that tuf has read.

    Raises:
        ValueError: its own content cannot be written down.
    """
    found = read_listing(canonical(signed.to_dict()))
    if found is None:
        raise ValueError("it is not of the type targets")
    return found


def _listed(
    kind: type[SignedT], data: bytes, meta: MetaFile, delegator: Root | Targets, role: str
) -> SignedT:
    """Metadata that other metadata lists by version, and by length and digest where it says so."""
    _require_listed(data, meta, role)
    signed = _load(kind, data, delegator, role)
    _require_version(signed, meta, role)
    return signed


def _require_listed(data: bytes, meta: MetaFile, role: str) -> None:
    try:
        meta.verify_length_and_hashes(data)
    except RepositoryError:
        raise _invalid(role, "is not the file that the other metadata lists") from None


def _require_version(signed: Signed, meta: MetaFile, role: str) -> None:
    if signed.version != meta.version:
        raise _invalid(role, f"has version {signed.version}, and {meta.version} is listed")


def _load(kind: type[SignedT], data: bytes, delegator: Root | Targets | None, role: str) -> SignedT:
    """Metadata with the signatures that its delegator asks for; a root also has its own."""
    try:
        found: Metadata[Any] = Metadata.from_bytes(data)
        signed = found.signed
        if not isinstance(signed, kind):
            raise _invalid(role, f"is of type {signed.type}")
        signers = [delegator] if delegator is not None else []
        if isinstance(signed, Root):
            signers.append(signed)
        for signer in signers:
            _verify(signer, role, found)
    except (RepositoryError, ValueError, RecursionError) as error:
        raise _invalid(role, f"cannot be trusted: {first_line(error)}") from None
    return signed


def _verify(delegator: Root | Targets, role: str, found: Metadata[Any]) -> None:
    """Check the signatures, over bytes that the C encoder makes where it can.

    What is signed is OLPC's canonical JSON, which tuf makes in Python: 4/5 of the time for a thousand releases. The
    bytes of `canonical` are the same but for control characters, which they escape. A canonical form has no escape
    like that, so a signature that is valid over these bytes is one over the canonical form of this very content.
    One that is not valid is looked at again by tuf itself.
    """
    if not delegator.get_verification_result(role, canonical(found.signed.to_dict()), found.signatures):
        delegator.verify_delegate(role, found.signed_bytes, found.signatures)


def _file(kept: KeptMetadata, role: str) -> bytes:
    data = kept.files.get(role)
    if data is None:
        raise UpdateRefused(
            UpdateCode.METADATA_UNAVAILABLE,
            f"this device has no {role} metadata yet: it has to refresh from the fleet server",
            again=True,
        )
    return data


def _meta(snapshot: Snapshot, role: str) -> MetaFile:
    meta = snapshot.meta.get(f"{role}.json")
    if meta is None:
        raise UpdateRefused(
            UpdateCode.METADATA_UNAVAILABLE, f"nobody has published {role} metadata yet", again=True
        )
    return meta


def _invalid(role: str, what: str) -> UpdateRefused:
    return UpdateRefused(UpdateCode.METADATA_INVALID, f"{role} metadata {what}", again=True)
