"""Rollouts: what was planned, who is part of it, what devices were asked, and what they said."""

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"


def upgrade() -> None:
    """Make the tables, all of them empty."""
    op.create_table(
        "assignments",
        sa.Column("device", sa.String(length=63), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("rollout", sa.BigInteger(), nullable=True),
        sa.Column("stage", sa.Integer(), nullable=True),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("slot", sa.String(length=63), nullable=False),
        sa.Column("action", sa.String(length=10), nullable=False),
        sa.Column("target", sa.String(length=200), nullable=True),
        sa.Column("length", sa.BigInteger(), nullable=True),
        sa.Column("sha256", sa.String(length=64), nullable=True),
        sa.Column("device_values", sa.Text(), nullable=True),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("code", sa.String(length=32), nullable=True),
        sa.Column("said", sa.String(length=300), nullable=False),
        sa.Column("left_as", sa.String(length=16), nullable=True),
        sa.Column("report_no", sa.BigInteger(), nullable=False),
        sa.Column("terminal_no", sa.BigInteger(), nullable=True),
        sa.Column("decided_ms", sa.BigInteger(), nullable=False),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.Column("settled_ms", sa.BigInteger(), nullable=True),
        sa.Column("due_ms", sa.BigInteger(), nullable=False),
        sa.Column("issued_ms", sa.BigInteger(), nullable=True),
        sa.Column("expires_ms", sa.BigInteger(), nullable=True),
        sa.Column("key_sha256", sa.String(length=64), nullable=True),
        sa.Column("nonce", sa.String(length=32), nullable=True),
        sa.Column("sealed", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("device", "seq", name=op.f("pk_assignments")),
    )
    op.create_index(
        "ix_assignments_due",
        "assignments",
        ["due_ms"],
        unique=False,
        sqlite_where=sa.text("live"),
        postgresql_where=sa.text("live"),
    )
    op.create_index("ix_assignments_paced", "assignments", ["rollout", "decided_ms"], unique=False)
    op.create_index(
        "uq_assignments_decision", "assignments", ["rollout", "device", "action", "round"], unique=True
    )
    op.create_table(
        "desired_states",
        sa.Column("device", sa.String(length=63), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.Column("sent_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("device", name=op.f("pk_desired_states")),
    )
    op.create_index("ix_desired_states_queue", "desired_states", ["state", "changed_ms"], unique=False)
    op.create_table(
        "device_facts",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_device_facts")),
    )
    op.create_table(
        "device_slots",
        sa.Column("device", sa.String(length=63), nullable=False),
        sa.Column("slot", sa.String(length=63), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=True),
        sa.Column("counter", sa.BigInteger(), nullable=False),
        sa.Column("package", sa.String(length=80), nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("report_no", sa.BigInteger(), nullable=False),
        sa.Column("reported_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("device", "slot", name=op.f("pk_device_slots")),
    )
    op.create_table(
        "device_updates",
        sa.Column("device", sa.String(length=63), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("report_no", sa.BigInteger(), nullable=False),
        sa.Column("boot_id", sa.String(length=64), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("nonce", sa.String(length=32), nullable=True),
        sa.Column("facts", sa.String(length=64), nullable=False),
        sa.Column("reported_ms", sa.BigInteger(), nullable=False),
        sa.Column("time_floor_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("device", name=op.f("pk_device_updates")),
    )
    op.create_table(
        "rollout_approvals",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("rollout", sa.BigInteger(), nullable=False),
        sa.Column("purpose", sa.String(length=16), nullable=False),
        sa.Column("by", sa.String(length=64), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("note", sa.String(length=300), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rollout_approvals")),
    )
    op.create_index(op.f("ix_rollout_approvals_rollout"), "rollout_approvals", ["rollout"], unique=False)
    op.create_table(
        "rollout_members",
        sa.Column("rollout", sa.BigInteger(), nullable=False),
        sa.Column("device", sa.String(length=63), nullable=False),
        sa.Column("slot", sa.String(length=63), nullable=False),
        sa.Column("stage", sa.Integer(), nullable=False),
        sa.Column("bucket", sa.Integer(), nullable=False),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("action", sa.String(length=10), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("code", sa.String(length=32), nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=True),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("heard_ms", sa.BigInteger(), nullable=True),
        sa.Column("excused", sa.Boolean(), nullable=False),
        sa.Column("before_sha256", sa.String(length=64), nullable=True),
        sa.Column("before_counter", sa.BigInteger(), nullable=False),
        sa.Column("installed", sa.String(length=16), nullable=True),
        sa.Column("installed_code", sa.String(length=32), nullable=True),
        sa.Column("device_values", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("rollout", "device", name=op.f("pk_rollout_members")),
    )
    op.create_index("ix_rollout_members_device", "rollout_members", ["device"], unique=False)
    op.create_index(
        "ix_rollout_members_state",
        "rollout_members",
        ["rollout", "state", "stage", "since_ms", "action", "excused"],
        unique=False,
    )
    op.create_index(
        "uq_rollout_members_live",
        "rollout_members",
        ["device", "slot"],
        unique=True,
        sqlite_where=sa.text("live"),
        postgresql_where=sa.text("live"),
    )
    op.create_table(
        "rollout_stages",
        sa.Column("rollout", sa.BigInteger(), nullable=False),
        sa.Column("stage", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("opened_ms", sa.BigInteger(), nullable=True),
        sa.Column("waiting_ms", sa.BigInteger(), nullable=True),
        sa.Column("soaking_ms", sa.BigInteger(), nullable=True),
        sa.Column("closed_ms", sa.BigInteger(), nullable=True),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("rollout", "stage", name=op.f("pk_rollout_stages")),
    )
    op.create_table(
        "rollouts",
        sa.Column(
            "number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("slot", sa.String(length=63), nullable=False),
        sa.Column("release", sa.String(length=63), nullable=False),
        sa.Column("counter", sa.BigInteger(), nullable=False),
        sa.Column("target", sa.String(length=200), nullable=False),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("terms", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("reason_code", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.String(length=300), nullable=False),
        sa.Column("author", sa.String(length=64), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=True),
        sa.Column("paused_ms", sa.BigInteger(), nullable=True),
        sa.Column("spent_approval", sa.BigInteger(), nullable=False),
        sa.Column("ended_ms", sa.BigInteger(), nullable=True),
        sa.Column("touched_ms", sa.BigInteger(), nullable=False),
        sa.Column("looked_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_rollouts")),
    )
    op.create_index(op.f("ix_rollouts_state"), "rollouts", ["state"], unique=False)
