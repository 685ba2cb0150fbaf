"""Who assigns releases to a simulated device, and its trust, which believes him: releases of one file each."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from securesystemslib.signer import CryptoSigner

from edge_runtime.clock import NS_PER_MS
from edge_runtime.protocol.envelope import read_envelope, record_in, seal
from edge_runtime.protocol.release import (
    Bundle,
    BundleFile,
    Opening,
    ProbationTerms,
    ReleaseKind,
    ReleaseTerms,
    ShadowTerms,
)
from edge_runtime.protocol.update import (
    ASSIGNMENT_TYPE,
    SETTLED_TYPE,
    Assignment,
    DeviceFacts,
    Settled,
    UpdateAction,
    UpdateCode,
)
from edge_runtime.protocol.update_wire import Desired
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.trust import Admitted, RunningRelease
from edge_runtime.updates.trust.admission import unsealed
from sim.simulated.clock import SimClock

DEVICE, SLOT = "sim-1", "m"
PROBATION = ProbationTerms(seconds=60, max_seconds=600, min_frames=100)
"""Of every release here. None is shown frames beside the one in use before: as if it was signed in a hurry."""

_KEY = "7c" * 32


@dataclass(slots=True)
class Director:
    """Who assigns releases, and what a device's trust makes of it.

    Attributes:
        blobs: of the releases, by SHA-256.
        bad: share of frames without numbers, by the SHA-256 of a bundle.
    """

    clock: SimClock
    blobs: dict[str, bytes] = field(default_factory=dict)
    bad: dict[str, float] = field(default_factory=dict)
    _terms: dict[str, ReleaseTerms] = field(default_factory=dict)
    _signer: CryptoSigner = field(default_factory=CryptoSigner.generate_ed25519)
    _seq: int = 0

    def assign(self, nonfinite: float) -> bytes:
        """A new release for the device, as the uplink would write it down."""
        self._seq += 1
        weights = f"weights {self._seq}".encode()
        digest = hashlib.sha256(weights).hexdigest()
        file = BundleFile(path="model.onnx", sha256=digest, bytes=len(weights))
        bundle = Bundle(kind=ReleaseKind.MODEL, name=SLOT, files=(file,))
        terms = ReleaseTerms(
            kind=ReleaseKind.MODEL,
            name=SLOT,
            counter=self._seq,
            package=f"sha256:{digest}",
            total_bytes=bundle.total_bytes,
            salt="5a" * 8,
            openings=(Opening(basis_points=10_000),),
            shadow=ShadowTerms(seconds=0),
            probation=PROBATION,
        )
        data = bundle.canonical_bytes()
        self.blobs |= {digest: weights, bundle.sha256: data}
        self.bad[bundle.sha256] = nonfinite
        self._terms[terms.target] = terms
        now_ms = self.clock.wall().unix_ns // NS_PER_MS
        assignment = Assignment(
            device=DEVICE,
            key_sha256=_KEY,
            seq=self._seq,
            slot=SLOT,
            action=UpdateAction.INSTALL,
            target=terms.target,
            length=len(data),
            sha256=bundle.sha256,
            issued_ms=now_ms,
            expires_ms=now_ms + 86_400_000,
        )
        sealed = seal(assignment, ASSIGNMENT_TYPE, self._signer)
        return Desired(device=DEVICE, assignments=(sealed,)).encode()

    # -- `Trusting`

    def refresh(self) -> None:
        """Nothing is newer."""

    def admit(
        self,
        sealed: bytes,
        *,
        last_seq: int,
        nonce: str | None,  # noqa: ARG002 - the port's name
        running: Mapping[str, RunningRelease],  # noqa: ARG002
        facts: DeviceFacts,  # noqa: ARG002
        denied: Collection[str],
    ) -> Admitted:
        """What is news, and is not known as bad here, is admitted."""
        found = unsealed(sealed, None)
        if found.seq <= last_seq:
            raise UpdateRefused(UpdateCode.STALE_SEQUENCE, "this device has seen a newer one")
        if found.sha256 in denied:
            raise UpdateRefused(UpdateCode.KNOWN_BAD, "it failed here before")
        return Admitted(found, self._terms[str(found.target)])

    def still_signed(self, assignment: Assignment) -> bool:  # noqa: ARG002 - the port's name
        """Nobody takes a signature back."""
        return True

    def settled(self, sealed: bytes) -> Settled:
        """Nobody settles."""
        return record_in(read_envelope(sealed, SETTLED_TYPE), Settled)

    def director(self) -> str:
        """Whose numbers assignments have."""
        return "the rig"

    def time_floor_ms(self) -> int:
        """Nothing is known."""
        return 0
