"""The demo's people: they make keys, build and approve releases, and hand them to the server.

What each does is what `fleet keys init`, `fleet release sign`, `approve` and `publish` do, by the same functions:
as commands they would be a dozen processes. The demo chooses the salt of a release, so that its first ring holds
the real device.
"""

import hashlib
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.clock import NS_PER_MS, SystemClock
from edge_runtime.packages import ModelPackage
from edge_runtime.protocol.release import BUCKETS, Opening, ProbationTerms, ShadowTerms, bucket
from fleet_server.releases.ceremony import begin
from fleet_server.releases.desk import ReleaseDesk
from fleet_server.releases.drafting import Wishes, propose_release, terms_for
from fleet_server.releases.key_directory import KeyDirectory
from fleet_server.releases.packing import Content, content_of
from fleet_server.releases.proposal import Proposal
from fleet_server.releases.repository import verified
from fleet_server.releases.review import review, sign_everything, sign_once
from fleet_server.releases.roles import Preset

PASSPHRASE = "nobody keeps this secret"  # noqa: S105 - of keys that live as long as a demo
RINGS = (200, 1000, 5000, BUCKETS)
"""2, 10, 50 and 100 %, as basis points."""

_TEAM = ("ada", "ben", "cara")
_MOST_SALTS = 200_000
_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class Terms:
    """How a version has to prove itself on a device."""

    shadow: ShadowTerms
    probation: ProbationTerms
    notes: str


@dataclass(frozen=True, slots=True)
class Release:
    """A published release.

    Attributes:
        sha256: of its bundle.
    """

    name: str
    counter: int
    sha256: str


class People:
    """Who holds keys, each in a directory of their own.

    Args:
        folder: made.
        desk: of the server.
        preset: `single` or `team`.
    """

    def __init__(self, folder: Path, desk: ReleaseDesk, preset: str) -> None:
        folder.mkdir(mode=0o700)
        self._desk, self._preset, self._pause = desk, Preset(preset), threading.Event()
        names = _TEAM[:1] if self._preset is Preset.SINGLE else _TEAM
        self._holders = {
            name: KeyDirectory.create(folder / name, name, self._preset.keys(), PASSPHRASE) for name in names
        }
        self.builder = names[0]
        self.approver = names[0] if self._preset is Preset.SINGLE else _TEAM[1]

    def begin(self) -> None:
        """The ceremony of the keys.

        Raises:
            EdgeRuntimeError: the server does not take it.
        """
        persons = [holder.person for holder in self._holders.values()]
        proposal = begin(self._desk.repository(), self._preset, persons, _now_ms())
        for name in dict.fromkeys((self.builder, self.approver)):
            holder = self._holders[name]
            seen = review(proposal, holder, None, _now_ms())
            proposal, _ = sign_everything(proposal, seen, holder, PASSPHRASE)
        self._publish(proposal)

    def release(self, package: ModelPackage, terms: Terms, salt: str) -> Release:
        """Build, approve and publish a version.

        Raises:
            EdgeRuntimeError: the package may not be released.
        """
        file = self._desk.repository()
        trusted = verified(file, None)
        assert trusted is not None, "the ceremony comes first"
        content = content_of(package.directory)
        wishes = Wishes(
            openings=tuple(Opening(basis_points=share) for share in RINGS),
            shadow=terms.shadow,
            probation=terms.probation,
            salt=salt,
            notes=terms.notes,
        )
        signed = terms_for(file, trusted, content, wishes)
        proposal = propose_release(file, trusted, content.bundle, signed, _now_ms())
        for name in (self.builder, self.approver):
            holder = self._holders[name]
            proposal, _ = sign_once(proposal, review(proposal, holder, None, _now_ms()), holder, PASSPHRASE)
        self._upload(proposal, content)
        self._publish(proposal)
        return Release(signed.name, signed.counter, content.bundle.sha256)

    def _upload(self, proposal: Proposal, content: Content) -> None:
        places = {file.sha256: content.files[file.path] for file in content.bundle.files}
        for awaited in self._desk.announce(proposal.submission(), self.builder):
            data = places[awaited.sha256].read_bytes()
            self._desk.uploads.append(awaited.sha256, awaited.offset, data[awaited.offset :])

    def _publish(self, proposal: Proposal) -> None:
        """Until the server has tried the golden vectors."""
        while self._desk.publish(proposal.submission(), self.builder).state == "checking":
            self._pause.wait(_LOOK_S)


def salt_for(first: str, others: Sequence[str], seed: str) -> str:
    """A salt by which the first ring holds one device and another one, and the next ones about their share.

    Args:
        first: in the first ring.
        others: the rest of the fleet.
        seed: another one gives another salt.
    """
    everybody = [first, *others]
    for number in range(_MOST_SALTS):
        salt = hashlib.sha256(f"{seed} {number}".encode()).hexdigest()[:32]
        if bucket(salt, first) >= RINGS[0]:
            continue
        sizes = [sum(bucket(salt, device) < share for device in everybody) for share in RINGS[:3]]
        tenth, half = len(everybody) / 10, len(everybody) / 2
        if sizes[0] == 2 and abs(sizes[1] - tenth) <= 1 and abs(sizes[2] - half) <= 2:
            return salt
    return os.urandom(16).hex()


def _now_ms() -> int:
    return SystemClock().wall().unix_ns // NS_PER_MS
