"""What the server does about releases: takes proposals and files, publishes in one transaction, and keeps fresh.

Nothing is believed because of who brings it. A proposal counts by its signatures, a file by its digest, a release
by what is in it; the operator's token only says who may try.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy.orm import Session
from tuf.api.exceptions import LengthOrHashMismatchError
from tuf.api.metadata import Metadata, TargetFile

from edge_runtime.clock import NS_PER_MS, Clock
from edge_runtime.packages.manifest import Evaluation
from edge_runtime.protocol.release import Bundle, ReleaseTerms
from fleet_server.audit import Audit
from fleet_server.paths import ServerPaths
from fleet_server.releases import catalog, shelf
from fleet_server.releases.blobs import BlobFolder
from fleet_server.releases.content import ContentCheck, Inspected, published_bundle, require_known_back
from fleet_server.releases.fitness import Before, Rules, require_model
from fleet_server.releases.freshness import Freshness
from fleet_server.releases.judgement import changes, judge
from fleet_server.releases.online_keys import OnlineKeys
from fleet_server.releases.package_check import PackageChecks
from fleet_server.releases.problems import ReleaseRefused
from fleet_server.releases.proposal import ProposalKind, Submission, parsed, who_may_sign
from fleet_server.releases.repository import RepositoryFile, Trusted, as_bytes, terms_of
from fleet_server.releases.roles import ONLINE_ROLES
from fleet_server.releases.uploads import Awaited, Uploads
from fleet_server.settings import ReleaseSettings
from fleet_server.storage.engine import Store
from fleet_server.storage.release_tables import ReleaseRow
from fleet_server.storage.writing import RELEASE_LOCK, take_turn

_EVALUATIONS = TypeAdapter(tuple[Evaluation, ...])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a proposal.

    Attributes:
        state: `published`, `already` (it was before), or `checking`: ask again.
        versions: of the metadata that is published now, by role.
    """

    state: str
    target: str | None
    versions: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A release that somebody asks to publish, with the one that it follows."""

    terms: ReleaseTerms
    bundle: Bundle
    before: Before | None


class ReleaseDesk:
    """The releases of one server.

    Args:
        paths: of its data directory.
        store: the database.
        settings: what it takes.
        audit: where it is written down.
        clock: says what has run out.
        checks: run golden vectors; the machine's own runtime when None.
    """

    def __init__(
        self,
        paths: ServerPaths,
        store: Store,
        settings: ReleaseSettings,
        *,
        audit: Audit,
        clock: Clock,
        checks: PackageChecks | None = None,
    ) -> None:
        self.keys = OnlineKeys(paths)
        self.blobs = BlobFolder(paths.release_blobs, settings.keep_free_bytes)
        self.uploads = Uploads(store, self.blobs, settings, audit, clock)
        self.freshness = Freshness(store, self.keys, settings, audit, clock)
        self._content = ContentCheck(
            paths.releases, self.blobs, checks or PackageChecks(settings.check_deadline_s)
        )
        self._store, self._settings, self._audit, self._clock = store, settings, audit, clock

    def repository(self) -> RepositoryFile:
        """What people carry away: no secret, and everything that they need to sign the next."""
        with self._store.read() as session:
            return shelf.repository_file(session, self.keys.public())

    def renew_keys(self, roles: Sequence[str], by: str) -> RepositoryFile:
        """Make new keys of the server's own, which a rotation then puts in force."""
        if unknown := [role for role in roles if role not in ONLINE_ROLES]:
            raise ReleaseRefused("role", f"{unknown[0][:40]} is none of {', '.join(ONLINE_ROLES)}", 422)
        self.keys.renew(roles)
        with self._store.write() as session:
            self._audit.record(session, by, "keys.online", ",".join(roles), {})
        return self.repository()

    def announce(self, submission: Submission, by: str) -> list[Awaited]:
        """Look at a proposal's signatures, and say which of its files are to be uploaded.

        Raises:
            ReleaseRefused: it may not be published, whatever its files hold.
        """
        if submission.kind is not ProposalKind.RELEASE:
            return []
        now_ms = self._now_ms()
        with self._store.read() as session:
            if self._is_published(session, submission):
                return []
            terms, bundle = self._release(shelf.published(session), submission, now_ms)
        return self.uploads.expect(terms.target, bundle.files, by)

    def publish(self, submission: Submission, by: str) -> Outcome:
        """Publish a proposal, once and whole, or say why not. The same proposal again changes nothing.

        Raises:
            ReleaseRefused: it is not to be published.
        """
        found: _Asked | None = None
        with self._store.read() as session:
            before = shelf.published(session)
            if self._is_published(session, submission):
                return Outcome("already", submission.target, _versions(before))
            now_ms = self._now_ms()
            after = judge(before, submission.kind, parsed(submission.documents), now_ms)
            for role in ONLINE_ROLES:
                self.keys.signer(role, after.keyids(role))
            if submission.kind is ProposalKind.RELEASE:
                found = self._asked(session, before, submission, now_ms)
            for target in changes(before, after).revised.values():
                require_known_back(terms_of(target), before)
        # no transaction is open while gigabytes are read
        inspected = None if found is None else self._looked_at(found)
        if found is not None and inspected is None:
            return Outcome("checking", submission.target, _versions(before))
        with self._store.write() as session:
            take_turn(session.connection(), RELEASE_LOCK)
            return self._commit(session, submission, inspected, by)

    def _commit(
        self, session: Session, submission: Submission, inspected: Inspected | None, by: str
    ) -> Outcome:
        now_ms = self._now_ms()
        documents = parsed(submission.documents)
        before = shelf.published(session)
        if self._is_published(session, submission):
            return Outcome("already", submission.target, _versions(before))
        after = judge(before, submission.kind, documents, now_ms)  # somebody may have been faster
        for role, document in documents.items():
            known = who_may_sign(role, before, documents)
            shelf.put_metadata(session, role, as_bytes(_without_strangers(document, known)), now_ms)
        if inspected is not None:
            evaluation = [] if inspected.manifest is None else inspected.manifest.evaluation
            plain = [one.model_dump(mode="json") for one in evaluation]
            shelf.put_release(session, inspected.terms, inspected.bundle, plain, by=by, now_ms=now_ms)
        done = changes(before, after)
        for path in done.removed:
            row = session.get(ReleaseRow, path)
            if row is not None:
                row.revoked_ms, row.revoked_by, row.reason = now_ms, by, submission.reason[:500]
        for path, target in done.revised.items():
            row = session.get(ReleaseRow, path)
            if row is not None:
                row.terms = terms_of(target).canonical_bytes().decode()
        self.freshness.sign(session, after, now_ms)
        self._audit.record(
            session,
            by,
            _ACT[submission.kind],
            submission.target or ",".join(documents),
            {
                "signed": {role: sorted(document.signatures) for role, document in documents.items()},
                "reason": submission.reason,
            },
        )
        return Outcome("published", submission.target, _versions(after))

    def _asked(self, session: Session, before: Trusted | None, submission: Submission, now_ms: int) -> _Asked:
        terms, bundle = self._release(before, submission, now_ms)
        absent = {file.sha256 for file in bundle.files if not self.blobs.has(file.sha256, file.bytes)}
        if absent:
            raise ReleaseRefused("files_missing", f"{len(absent)} files of {terms.target} are not here yet")
        if terms.counter <= (highest := shelf.highest_counter(session, terms)):
            raise ReleaseRefused(
                "counter",
                f"{terms.name} had a release {highest} already, also where it was revoked: count on",
            )
        return _Asked(terms, bundle, self._before(session, terms))

    def _looked_at(self, asked: _Asked) -> Inspected | None:
        """The release once its files and its golden vectors are as they should be; None while that is found out."""
        found = self._content.inspect(asked.terms, asked.bundle)
        if found is None:
            return None
        if found.manifest is not None:
            rules = Rules(self._settings.licences, self._settings.max_accuracy_drop)
            require_model(asked.terms, found.manifest, asked.before, rules)
        return found if self._content.is_checked(found) else None

    def _release(
        self, before: Trusted | None, submission: Submission, now_ms: int
    ) -> tuple[ReleaseTerms, Bundle]:
        """Terms and bundle of the one release that a proposal adds, its signatures verified."""
        after = judge(before, submission.kind, parsed(submission.documents), now_ms)
        ((path, target),) = changes(before, after).added.items()
        if path != submission.target:
            raise ReleaseRefused("target", "the proposal says that it is about another release than it is")
        terms = terms_of(target)
        bundle = published_bundle(submission.bundle, terms, before)
        if not _is_of(target, submission.bundle or ""):
            raise ReleaseRefused("bundle", f"the bundle is not the one that was signed for {path}")
        return terms, bundle

    def _before(self, session: Session, terms: ReleaseTerms) -> Before | None:
        found = catalog.releases(session, kind=terms.kind, name=terms.name, with_revoked=False, limit=1)
        if not found:
            return None
        text = shelf.evaluation_of(session, found[0].target)
        return Before(found[0].terms, _EVALUATIONS.validate_json(text))

    def _is_published(self, session: Session, submission: Submission) -> bool:
        """Whether every document of a proposal is there, as it is."""
        for role, document in parsed(submission.documents).items():
            body = catalog.metadata(session, role, document.signed.version)
            if body is None or Metadata.from_bytes(body).signed_bytes != document.signed_bytes:
                return False
        return True

    def _now_ms(self) -> int:
        return self._clock.wall().unix_ns // NS_PER_MS


_ACT = {
    ProposalKind.KEYS: "keys.publish",
    ProposalKind.RELEASE: "release.publish",
    ProposalKind.REVOCATION: "release.revoke",
    ProposalKind.TERMS: "release.terms",
}


def _is_of(target: TargetFile, bundle: str) -> bool:
    """Whether a bundle is the one that a target names."""
    try:
        target.verify_length_and_hashes(bundle.encode())
    except LengthOrHashMismatchError:
        return False
    return True


def _without_strangers(document: Metadata[Any], known: Container[str]) -> Metadata[Any]:
    """Without signatures of keys that have no say: nobody may stuff what devices fetch."""
    for keyid in [keyid for keyid in document.signatures if keyid not in known]:
        del document.signatures[keyid]
    return document


def _versions(trusted: Trusted | None) -> dict[str, int]:
    if trusted is None:
        return {}
    return {role: trusted.version(role) for role in ("root", "targets", *trusted.roles)}
