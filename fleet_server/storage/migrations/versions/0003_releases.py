"""Signed releases: metadata, releases with their files, and uploads that may come."""

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "release_metadata",
        sa.Column("role", sa.String(length=32), nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("published_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("role", "version", name=op.f("pk_release_metadata")),
    )
    op.create_table(
        "releases",
        sa.Column("target", sa.String(length=200), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("counter", sa.BigInteger(), nullable=False),
        sa.Column("length", sa.Integer(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("bundle", sa.LargeBinary(), nullable=False),
        sa.Column("terms", sa.Text(), nullable=False),
        sa.Column("evaluation", sa.Text(), nullable=False),
        sa.Column("published_ms", sa.BigInteger(), nullable=False),
        sa.Column("published_by", sa.String(length=80), nullable=False),
        sa.Column("revoked_ms", sa.BigInteger(), nullable=True),
        sa.Column("revoked_by", sa.String(length=80), nullable=True),
        sa.Column("reason", sa.String(length=500), nullable=True),
        sa.PrimaryKeyConstraint("target", name=op.f("pk_releases")),
    )
    op.create_index("ix_releases_line", "releases", ["kind", "name", "counter"], unique=True)
    op.create_index(op.f("ix_releases_sha256"), "releases", ["sha256"], unique=False)
    op.create_table(
        "release_files",
        sa.Column("target", sa.String(length=200), nullable=False),
        sa.Column("path", sa.String(length=128), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["target"], ["releases.target"], name=op.f("fk_release_files_target_releases")
        ),
        sa.PrimaryKeyConstraint("target", "path", name=op.f("pk_release_files")),
    )
    op.create_index(op.f("ix_release_files_sha256"), "release_files", ["sha256"], unique=False)
    op.create_table(
        "release_uploads",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("announced_by", sa.String(length=80), nullable=False),
        sa.Column("announced_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_release_uploads")),
    )
