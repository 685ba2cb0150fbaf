"""Tables of releases: signed metadata as published, releases and their files, and uploads that may come."""

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, LargeBinary, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from fleet_server.storage.base import Base


class MetadataRow(Base):
    """One version of one role's metadata, byte for byte as it was signed.

    Attributes:
        role: `root`, `targets`, `models`, `configurations`, `snapshot` or `timestamp`.
        expires_ms: as the metadata itself says.
    """

    __tablename__ = "release_metadata"

    role: Mapped[str] = mapped_column(String(32), primary_key=True)
    version: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    body: Mapped[bytes] = mapped_column(LargeBinary)
    published_ms: Mapped[int] = mapped_column(BigInteger)
    expires_ms: Mapped[int] = mapped_column(BigInteger)


class ReleaseRow(Base):
    """One release. A revoked one keeps its row, so that its counter is never given again.

    Attributes:
        target: path in the repository, `models/<name>/<counter>/bundle.json`.
        length, sha256: of the bundle.
        bundle: its bytes.
        terms: canonical JSON of `ReleaseTerms`, as signed.
        evaluation: canonical JSON, what the package's manifest says of its accuracy; of a configuration `[]`.
        reason: why it was revoked.
    """

    __tablename__ = "releases"
    __table_args__ = (Index("ix_releases_line", "kind", "name", "counter", unique=True),)

    target: Mapped[str] = mapped_column(String(200), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    name: Mapped[str] = mapped_column(String(64))
    counter: Mapped[int] = mapped_column(BigInteger)
    length: Mapped[int] = mapped_column(Integer)
    sha256: Mapped[str] = mapped_column(String(64), index=True)
    bundle: Mapped[bytes] = mapped_column(LargeBinary)
    terms: Mapped[str] = mapped_column(Text)
    evaluation: Mapped[str] = mapped_column(Text)
    published_ms: Mapped[int] = mapped_column(BigInteger)
    published_by: Mapped[str] = mapped_column(String(80))
    revoked_ms: Mapped[int | None] = mapped_column(BigInteger)
    revoked_by: Mapped[str | None] = mapped_column(String(80))
    reason: Mapped[str | None] = mapped_column(String(500))


class ReleaseFileRow(Base):
    """One file of a release: which content may be fetched, and on whose account."""

    __tablename__ = "release_files"

    target: Mapped[str] = mapped_column(ForeignKey("releases.target"), primary_key=True)
    path: Mapped[str] = mapped_column(String(128), primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64), index=True)
    bytes: Mapped[int] = mapped_column(BigInteger)


class ReleaseUploadRow(Base):
    """Content that a proposal with enough signatures named: nothing else may be uploaded."""

    __tablename__ = "release_uploads"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    bytes: Mapped[int] = mapped_column(BigInteger)
    announced_by: Mapped[str] = mapped_column(String(80))
    announced_ms: Mapped[int] = mapped_column(BigInteger)
