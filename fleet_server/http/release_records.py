"""What the API answers with about releases."""

from pydantic import BaseModel, ConfigDict

from edge_runtime.protocol.release import Bundle, ReleaseTerms


class _Answer(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class ReleaseAnswer(_Answer):
    """One release. Times are milliseconds since 1970."""

    target: str
    length: int
    sha256: str
    terms: ReleaseTerms
    published_ms: int
    published_by: str
    revoked_ms: int | None
    revoked_by: str | None
    reason: str | None


class ReleaseDetail(ReleaseAnswer):
    """One release with the list of its files."""

    bundle: Bundle


class ReleasePage(_Answer):
    """Releases by kind and name, the newest of each first.

    Attributes:
        next: give it as `after` for the next page; None when this is the last.
    """

    releases: list[ReleaseAnswer]
    next: str | None


class AwaitedAnswer(_Answer):
    """A file to upload: `offset` of its `bytes` are here."""

    sha256: str
    bytes: int
    offset: int


class AnnouncedAnswer(_Answer):
    """The files of a proposal that are not here yet."""

    awaited: list[AwaitedAnswer]


class PublishedAnswer(_Answer):
    """What became of a proposal: `published`, `already`, or `checking`, which means that one should ask again.

    Attributes:
        versions: of the metadata that is published now, by role.
    """

    state: str
    target: str | None
    versions: dict[str, int]


class RecoveredAnswer(_Answer):
    """The versions with which the server goes on."""

    snapshot: int
    timestamp: int
