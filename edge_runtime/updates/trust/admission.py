"""Whether an assignment may be carried out here and now: pure judgement over verified metadata."""

import hmac
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tuf.api.exceptions import RepositoryError
from tuf.api.metadata import Targets

from edge_runtime.protocol.envelope import RecordT, read_envelope, record_in
from edge_runtime.protocol.release import ReleaseKind, ReleaseTerms, bucket
from edge_runtime.protocol.release_values import value_problem
from edge_runtime.protocol.update import (
    ASSIGNMENT_TYPE,
    DIRECTOR_ROLE,
    SETTLED_TYPE,
    Assignment,
    DeviceFacts,
    Settled,
    UpdateAction,
    UpdateCode,
    kind_of,
)
from edge_runtime.protocol.wire import WireError
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.trust.chain import Chain
from edge_runtime.updates.trust.fit import refuse_misfit
from edge_runtime.updates.trust.listing import Listing
from edge_runtime.updates.trust.memory import Line
from edge_runtime.updates.trust.moment import JudgedTime, iso


@dataclass(frozen=True, slots=True)
class RunningRelease:
    """What one slot runs.

    Attributes:
        sha256: of the release's bundle; None for what the device was set up with.
        counter: of the release; 0 for what the device was set up with.
        terms: of the release; None for what the device was set up with.
    """

    sha256: str | None
    counter: int
    terms: ReleaseTerms | None


@dataclass(frozen=True, slots=True)
class Admitted:
    """An assignment that this device should carry out.

    Attributes:
        terms: of the release it names; None for `HOLD`.
        back: it leads back to what the people who signed what runs allowed. The director's word alone makes nothing
            a way back: what is new has its shadow run and waits for its window, whatever the assignment calls it.
    """

    assignment: Assignment
    terms: ReleaseTerms | None
    back: bool = False


@dataclass(frozen=True, slots=True)
class Recipient:
    """The device that judges.

    Attributes:
        device: its id.
        key_sha256: of its public key.
        last_seq: the newest sequence that it has seen.
        denied: SHA-256 of bundles that failed here.
        lines: what each slot ran last of each name of releases, whatever it runs now.
    """

    device: str
    key_sha256: str
    last_seq: int
    facts: DeviceFacts
    running: Mapping[str, RunningRelease]
    denied: Collection[str]
    lines: Mapping[str, Mapping[str, Line]]


def unsealed(sealed: bytes, targets: Targets | None) -> Assignment:
    """The assignment in an envelope.

    Args:
        sealed: as it came.
        targets: verified top-level targets, whose `director` must have signed; None looks at no signature.

    Raises:
        UpdateRefused: BAD_ENVELOPE, DIRECTOR_SIGNATURE.
    """
    return _from_director(sealed, targets, ASSIGNMENT_TYPE, Assignment, "assignment")


def unsealed_settlement(sealed: bytes, targets: Targets, device: str) -> Settled:
    """The settled ends in an envelope.

    Args:
        sealed: as it came.
        targets: as in `unsealed`.
        device: this one's id.

    Raises:
        UpdateRefused: BAD_ENVELOPE, DIRECTOR_SIGNATURE, WRONG_DEVICE.
    """
    found = _from_director(sealed, targets, SETTLED_TYPE, Settled, "settlement of reports")
    if found.device != device:
        raise UpdateRefused(UpdateCode.WRONG_DEVICE, f"the settlement of reports is for {found.device}")
    return found


def _from_director(
    sealed: bytes, targets: Targets | None, payload_type: str, kind: type[RecordT], what: str
) -> RecordT:
    try:
        envelope = read_envelope(sealed, payload_type)
        if targets is not None:
            targets.verify_delegate(DIRECTOR_ROLE, envelope.pae(), envelope.signatures)
        return record_in(envelope, kind)
    except WireError as error:
        raise UpdateRefused(UpdateCode.BAD_ENVELOPE, f"what came is no {what}: {error}") from None
    except (RepositoryError, ValueError):  # nobody is director, or somebody else has signed
        raise UpdateRefused(
            UpdateCode.DIRECTOR_SIGNATURE,
            f"the {what} is not signed by the director that the fleet's targets name",
            again=True,
        ) from None


def refuse_stranger(assignment: Assignment, recipient: Recipient) -> None:
    """Refuse what is meant for somebody else, or is no news.

    Raises:
        UpdateRefused: WRONG_DEVICE, WRONG_KEY, STALE_SEQUENCE, SLOT_UNKNOWN.
    """
    if assignment.device != recipient.device:
        raise UpdateRefused(UpdateCode.WRONG_DEVICE, f"the assignment is for {assignment.device}")
    if not hmac.compare_digest(assignment.key_sha256, recipient.key_sha256):
        raise UpdateRefused(
            UpdateCode.WRONG_KEY, "the assignment is for a device of this name with another key"
        )
    if assignment.seq <= recipient.last_seq:
        raise UpdateRefused(
            UpdateCode.STALE_SEQUENCE,
            f"assignment {assignment.seq} is not newer than {recipient.last_seq}, which this device has seen",
        )
    if assignment.slot not in recipient.running:
        raise UpdateRefused(
            UpdateCode.SLOT_UNKNOWN, f"this device's configuration has no model named {assignment.slot}"
        )


def refuse_behind(assignment: Assignment, chain: Chain) -> None:
    """Refuse to judge by metadata that is older than the director says there is.

    A mirror that answers 404 for the next root, or serves what is old but has not expired, is found out by this.

    Raises:
        UpdateRefused: METADATA_UNAVAILABLE.
    """
    wanted = (
        ("root", assignment.root_version, chain.root.version),
        ("snapshot", assignment.snapshot_version, chain.snapshot.version),
    )
    for role, least, found in wanted:
        if found < least:
            raise UpdateRefused(
                UpdateCode.METADATA_UNAVAILABLE,
                f"the director knows {role} metadata of version {least}, and this device has {found}: "
                "it has to refresh, and if that does not help, somebody holds the newer one back",
                again=True,
            )


def proved_ms(assignment: Assignment, nonce: str | None) -> int | None:
    """When the assignment was made, if it repeats this device's own nonce, else None."""
    if nonce is None or assignment.nonce is None or not hmac.compare_digest(assignment.nonce, nonce):
        return None
    return assignment.issued_ms


def refuse_run_out(assignment: Assignment, moment: JudgedTime, proof_ms: int | None) -> None:
    """Refuse an assignment that has expired, unless the nonce proves that it is new.

    Raises:
        UpdateRefused: EXPIRED; CLOCK where only a clock that is not synchronised says so.
    """
    end_ms = assignment.expires_ms
    if proof_ms is not None or end_ms > moment.judged_ms():
        return
    if moment.synced or end_ms <= moment.floor_ms:
        # not for good: the fleet renews it under its number, and whoever carries it may bring the old one first
        raise UpdateRefused(
            UpdateCode.EXPIRED,
            f"the assignment ended at {iso(end_ms)}; it waits until the fleet renews it",
            again=True,
        )
    raise UpdateRefused(
        UpdateCode.CLOCK,
        f"the assignment ended at {iso(end_ms)}, and this device's clock, which is not synchronised, "
        f"says {iso(moment.wall_ms)}",
        again=True,
    )


def terms_of(assignment: Assignment, targets: Targets, role: Listing) -> ReleaseTerms:
    """The signed terms of the release that an assignment names.

    Args:
        assignment: that names one.
        targets: verified top-level targets.
        role: verified metadata of the role that signs for the slot's kind of releases.

    Raises:
        UpdateRefused: TARGET_UNKNOWN: nobody signed for it; TARGET_MISMATCH: it was signed as something else.
    """
    path, kind = str(assignment.target), kind_of(assignment.slot)
    signed = role.target(path)
    if signed is None or not _may_sign(targets, kind, path):
        raise UpdateRefused(UpdateCode.TARGET_UNKNOWN, f"nobody has signed a release {path}, or no longer")
    if (signed.length, signed.hashes.get("sha256")) != (assignment.length, assignment.sha256):
        raise UpdateRefused(UpdateCode.TARGET_MISMATCH, f"{path} is signed with another length or digest")
    try:
        terms = ReleaseTerms.from_custom(signed.custom)
    except ValueError:
        raise UpdateRefused(
            UpdateCode.TARGET_MISMATCH, f"the signed terms of {path} cannot be read by this runtime"
        ) from None
    if terms.target != path:
        raise UpdateRefused(UpdateCode.TARGET_MISMATCH, f"the signed terms of {path} are of another release")
    return terms


def terms_now(path: str, role: Listing) -> ReleaseTerms | None:
    """The terms that people sign for a release at this time; None where it is revoked, or cannot be read."""
    signed = role.target(path)
    try:
        terms = None if signed is None else ReleaseTerms.from_custom(signed.custom)
    except ValueError:
        return None
    return terms if terms is not None and terms.target == path else None


def _may_sign(targets: Targets, kind: ReleaseKind, path: str) -> bool:
    """Whether the role of a kind was given a path: it cannot speak beyond what was delegated to it."""
    roles = None if targets.delegations is None else targets.delegations.roles
    return roles is not None and kind.role in roles and roles[kind.role].is_delegated_path(path)


def refuse_values(assignment: Assignment, terms: ReleaseTerms) -> None:
    """Refuse values of this device that the people who signed did not allow: they are the director's word alone.

    Raises:
        UpdateRefused: VALUE_NOT_PERMITTED.
    """
    problem = value_problem(terms.values, assignment.values)
    if problem is not None:
        raise UpdateRefused(UpdateCode.VALUE_NOT_PERMITTED, f"{terms.target}: {problem}")


def refuse_unpermitted(
    assignment: Assignment, terms: ReleaseTerms, recipient: Recipient, now_ms: int
) -> bool:
    """Refuse what the people who signed do not allow on this device at this time; whether it is a way back.

    Args:
        assignment: install or rollback.
        terms: of the release that it names.
        recipient: this device.
        now_ms: by which openings are judged, milliseconds since 1970.

    Returns:
        True for a release that is older than what has run here and that somebody signed the way back to.

    Raises:
        UpdateRefused: VALUE_NOT_PERMITTED, a misfit's code, COUNTER, ROLLBACK_NOT_PERMITTED, LABELS, KNOWN_BAD or
            RING_CLOSED.
    """
    refuse_values(assignment, terms)  # also of what runs: other values are another configuration
    running = recipient.running[assignment.slot]
    if running.sha256 == assignment.sha256:
        return False  # nothing would change
    refuse_misfit(terms.fit, recipient.facts)
    is_back = _refuse_back(assignment, terms, running, recipient.lines.get(assignment.slot, {}))
    if assignment.sha256 in recipient.denied:
        raise UpdateRefused(
            UpdateCode.KNOWN_BAD,
            f"{terms.target} has failed on this device; only an assignment that is newer than the one under which "
            "it did may name it again",
        )
    if is_back:
        return True  # who signed the release that runs allowed this one to every device that runs it
    if running.terms is not None and terms.labels != running.terms.labels and not terms.relabels:
        raise UpdateRefused(
            UpdateCode.LABELS,
            f"{terms.target} has other labels than what runs, and its terms do not say that this is meant",
        )
    place, opened = bucket(terms.salt, recipient.device), terms.opened_basis_points(now_ms)
    if place >= opened:
        raise UpdateRefused(
            UpdateCode.RING_CLOSED,
            f"{terms.target} is open for the first {opened} of 10000 places, and this device has place {place}",
            again=True,
        )
    return False


def _refuse_back(
    assignment: Assignment, terms: ReleaseTerms, running: RunningRelease, lines: Mapping[str, Line]
) -> bool:
    """Refuse a way back that nobody signed for; whether it is one that somebody did.

    What the slot ran before counts as well: counters of another name start anew, and by way of a second name, or by
    losing the record of what runs, one would come back to any release of the first. `lines` has what runs too, with
    the permissions that people signed last: those in the record of a release that runs may have been taken back.
    """
    known = lines.get(terms.name, Line())
    is_same_name = running.terms is not None and running.terms.name == terms.name
    lowest = running.counter + 1 if is_same_name else known.counter
    if terms.counter >= lowest:
        return False
    own = Line() if running.terms is None else lines.get(running.terms.name, Line())
    permitting = (known.rollback_to, own.rollback_to)
    if assignment.action is not UpdateAction.ROLLBACK:
        raise UpdateRefused(
            UpdateCode.COUNTER,
            f"{terms.target} is below counter {lowest}: it is older than what has run here",
        )
    if not any(assignment.sha256 in permitted for permitted in permitting):
        raise UpdateRefused(
            UpdateCode.ROLLBACK_NOT_PERMITTED,
            f"{terms.target} is older than what has run here, and nobody signed for the way back to it",
        )
    return True
