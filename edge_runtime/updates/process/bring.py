"""The errand that brings a release here: its list, room for it, what is missing of it, and a look at all of it."""

from pydantic import ValidationError

from edge_runtime.protocol.release import Bundle, ReleaseTerms
from edge_runtime.protocol.update import Assignment, UpdateCode
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.process.ports import Fetching, Storing, Told
from edge_runtime.updates.wants import Want


def bring(
    assignment: Assignment, terms: ReleaseTerms, store: Storing, fetching: Fetching, told: Told
) -> None:
    """Bring the release of an assignment into the store; done already, it is looked at once more.

    Raises:
        UpdateRefused: it cannot be brought, or is not what was signed.
        DownloadCancelled: `told` asked for the end.
    """
    assert assignment.sha256 is not None
    assert assignment.length is not None
    wanted = Want(assignment.sha256, assignment.length, assignment.target)
    data = store.read(wanted.sha256, wanted.length)
    if data is None:
        fetching.fetch([wanted], told=lambda _progress: None, cancelled=told.cancelled)
        data = store.read(wanted.sha256, wanted.length)
    if data is None:
        raise UpdateRefused(
            UpdateCode.CONTENT_MISMATCH, "the release's list of files did not stay in the store", again=True
        )
    bundle = read_bundle(data, assignment, terms)
    store.check_space(bundle)
    missing = store.missing(bundle)
    if missing:
        # Counted over the whole release: a label that changes does not begin at nothing.
        here = bundle.total_bytes - sum(want.length for want in missing)
        fetching.fetch(
            missing,
            told=lambda progress: told.progress(here + progress.done, bundle.total_bytes),
            cancelled=told.cancelled,
        )
    store.keep(bundle, terms)


def read_bundle(data: bytes, assignment: Assignment, terms: ReleaseTerms) -> Bundle:
    """The list of files, which has to be of the release that people signed.

    Raises:
        UpdateRefused: BAD_BUNDLE.
    """
    try:
        bundle = Bundle.model_validate_json(data)
    except ValidationError as error:
        raise UpdateRefused(
            UpdateCode.BAD_BUNDLE, f"{assignment.target} is no list of files: {error.error_count()} faults"
        ) from None
    if bundle.canonical_bytes() != data:
        raise UpdateRefused(UpdateCode.BAD_BUNDLE, f"{assignment.target} is not written in the one form")
    if (bundle.kind, bundle.name) != (terms.kind, terms.name) or bundle.total_bytes != terms.total_bytes:
        raise UpdateRefused(
            UpdateCode.BAD_BUNDLE, f"{assignment.target} lists another release than its terms are of"
        )
    return bundle
