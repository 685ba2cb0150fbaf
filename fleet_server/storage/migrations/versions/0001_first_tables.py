"""The tables of the first fleet server."""

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | None = None


def upgrade() -> None:
    """Make all tables, and let no statement change or delete a row of the audit log."""
    op.create_table(
        "api_tokens",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("secret_sha256", sa.String(length=64), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=True),
        sa.Column("revoked_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_tokens")),
        sa.UniqueConstraint("name", name=op.f("uq_api_tokens_name")),
    )
    op.create_table(
        "audit",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.String(length=80), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.String(length=128), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("previous", sa.LargeBinary(length=32), nullable=False),
        sa.Column("hash", sa.LargeBinary(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
        sa.UniqueConstraint("hash", name=op.f("uq_audit_hash")),
        sa.UniqueConstraint("previous", name=op.f("uq_audit_previous")),
    )
    op.create_table(
        "commands",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("device", sa.String(length=63), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("by", sa.String(length=64), nullable=False),
        sa.Column("issued_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.Column("sent_ms", sa.BigInteger(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("result", sa.String(length=200), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_commands")),
    )
    op.create_index("ix_commands_state_device", "commands", ["state", "device"], unique=False)
    op.create_table(
        "dead_letters",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("device", sa.String(length=63), nullable=False),
        sa.Column("channel", sa.String(length=16), nullable=False),
        sa.Column("received_ms", sa.BigInteger(), nullable=False),
        sa.Column("code", sa.String(length=32), nullable=False),
        sa.Column("text", sa.String(length=200), nullable=False),
        sa.Column("key", sa.LargeBinary(length=16), nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dead_letters")),
    )
    op.create_index(op.f("ix_dead_letters_device"), "dead_letters", ["device"], unique=False)
    op.create_table(
        "devices",
        sa.Column("id", sa.String(length=63), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("serial", sa.String(length=64), nullable=True),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_devices")),
        sa.UniqueConstraint("serial", name=op.f("uq_devices_serial")),
    )
    op.create_table(
        "epochs",
        sa.Column("device", sa.String(length=63), nullable=False),
        sa.Column("epoch", sa.String(length=36), nullable=False),
        sa.Column("high", sa.BigInteger(), nullable=False),
        sa.Column("first_ms", sa.BigInteger(), nullable=False),
        sa.Column("seen_ms", sa.BigInteger(), nullable=False),
        sa.Column("surplus", sa.BigInteger(), nullable=False),
        sa.Column("reported_ms", sa.BigInteger(), nullable=True),
        sa.Column("accepted", sa.BigInteger(), nullable=False),
        sa.Column("queued", sa.BigInteger(), nullable=False),
        sa.Column("delivered", sa.BigInteger(), nullable=False),
        sa.Column("expired", sa.BigInteger(), nullable=False),
        sa.Column("evicted", sa.BigInteger(), nullable=False),
        sa.Column("rejected", sa.BigInteger(), nullable=False),
        sa.Column("lost", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("device", "epoch", name=op.f("pk_epochs")),
    )
    op.create_table(
        "events",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("key", sa.LargeBinary(length=16), nullable=False),
        sa.Column("device", sa.String(length=63), nullable=False),
        sa.Column("epoch", sa.String(length=36), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("event", sa.String(length=128), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("kind", sa.String(length=128), nullable=False),
        sa.Column("rule", sa.String(length=128), nullable=False),
        sa.Column("camera", sa.String(length=128), nullable=False),
        sa.Column("severity", sa.SmallInteger(), nullable=False),
        sa.Column("data_class", sa.String(length=16), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("synced", sa.Boolean(), nullable=False),
        sa.Column("received_ms", sa.BigInteger(), nullable=False),
        sa.Column("evidence_sha256", sa.String(length=64), nullable=True),
        sa.Column("body_sha256", sa.LargeBinary(length=32), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
        sa.UniqueConstraint("key", name=op.f("uq_events_key")),
    )
    op.create_index("ix_events_device_event", "events", ["device", "event", "revision"], unique=False)
    op.create_index("ix_events_device_id", "events", ["device", "id"], unique=False)
    op.create_index(
        "ix_events_evidence",
        "events",
        ["evidence_sha256"],
        unique=False,
        sqlite_where=sa.text("evidence_sha256 IS NOT NULL"),
        postgresql_where=sa.text("evidence_sha256 IS NOT NULL"),
    )
    op.create_index("ix_events_received", "events", ["received_ms"], unique=False)
    op.create_table(
        "evidence",
        sa.Column("device", sa.String(length=63), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("mode", sa.String(length=16), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("received", sa.BigInteger(), nullable=False),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("device", "sha256", name=op.f("pk_evidence")),
    )
    op.create_table(
        "fate_counts",
        sa.Column("device", sa.String(length=63), nullable=False),
        sa.Column("epoch", sa.String(length=36), nullable=False),
        sa.Column("fate", sa.String(length=16), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("device", "epoch", "fate", name=op.f("pk_fate_counts")),
    )
    op.create_table(
        "generations",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_generations")),
    )
    op.create_table(
        "health",
        sa.Column("device", sa.String(length=63), nullable=False),
        sa.Column("received_ms", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("device", name=op.f("pk_health")),
    )
    op.create_table(
        "held",
        sa.Column("device", sa.String(length=63), nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("received_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("device", "key", name=op.f("pk_held")),
    )
    op.create_table(
        "held_lists",
        sa.Column("device", sa.String(length=63), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("received_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("device", name=op.f("pk_held_lists")),
    )
    op.create_table(
        "invitations",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("secret_sha256", sa.String(length=64), nullable=False),
        sa.Column("device", sa.String(length=63), nullable=True),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("serials", sa.JSON(), nullable=True),
        sa.Column("uses_left", sa.Integer(), nullable=False),
        sa.Column("wrong_secrets", sa.Integer(), nullable=False),
        sa.Column("needs_approval", sa.Boolean(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_invitations")),
    )
    op.create_table(
        "presence",
        sa.Column("device", sa.String(length=63), nullable=False),
        sa.Column("session", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=False),
        sa.Column("boot_id", sa.String(length=64), nullable=False),
        sa.Column("runtime", sa.String(length=32), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("stale_ignored", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("device", name=op.f("pk_presence")),
    )
    op.create_table(
        "renewal_nonces",
        sa.Column("nonce", sa.String(length=64), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("nonce", name=op.f("pk_renewal_nonces")),
    )
    op.create_index(op.f("ix_renewal_nonces_expires_ms"), "renewal_nonces", ["expires_ms"], unique=False)
    op.create_table(
        "settled",
        sa.Column("device", sa.String(length=63), nullable=False),
        sa.Column("epoch", sa.String(length=36), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("fate", sa.String(length=16), nullable=False),
        sa.PrimaryKeyConstraint("device", "epoch", "first", name=op.f("pk_settled")),
    )
    op.create_table(
        "certificates",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("device", sa.String(length=63), nullable=False),
        sa.Column("serial", sa.String(length=40), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("key_sha256", sa.String(length=64), nullable=False),
        sa.Column("csr", sa.Text(), nullable=False),
        sa.Column("pem", sa.Text(), nullable=True),
        sa.Column("not_after_ms", sa.BigInteger(), nullable=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["device"], ["devices.id"], name=op.f("fk_certificates_device_devices")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_certificates")),
        sa.UniqueConstraint("serial", name=op.f("uq_certificates_serial")),
    )
    op.create_index(op.f("ix_certificates_device"), "certificates", ["device"], unique=False)
    op.create_index(op.f("ix_certificates_key_sha256"), "certificates", ["key_sha256"], unique=False)
    op.create_index(op.f("ix_certificates_state"), "certificates", ["state"], unique=False)
    _forbid_changes_of_audit()


def _forbid_changes_of_audit() -> None:
    """A slip of an operator's hand is stopped here; whoever may drop triggers is caught by the hash chain."""
    if op.get_bind().dialect.name == "sqlite":
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER audit_no_{verb.lower()} BEFORE {verb} ON audit "
                "BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END"
            )
        return
    op.execute(
        "CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$"
    )
    op.execute(
        "CREATE TRIGGER audit_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only()"
    )
