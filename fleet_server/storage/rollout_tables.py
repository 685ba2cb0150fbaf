"""Tables of rollouts: what was planned, who is part of it, what each device was asked, and what it said.

Numbers of a rollout are counted from the rows of its devices, never added up on the way: a server that is killed
anywhere finds them right. One statement of the database holds that two rollouts do not ask one device for one slot.
"""

from sqlalchemy import BigInteger, Index, LargeBinary, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from fleet_server.storage.base import Base, BigId


class RolloutRow(Base):
    """One rollout.

    Attributes:
        number: its id is `r` and this number; the older one comes first where two want a device.
        terms, plan: canonical JSON; the terms are those that people signed for this release.
        state: of `rollouts.states.RolloutState`; `reason_code` and `reason` say why.
        paused_ms: when it last paused or halted.
        spent_approval: approvals up to this one were for what is past.
        touched_ms: when a report last changed one of its devices.
        looked_ms: when the engine last looked at a completed one; older than `touched_ms` is to be looked at.
    """

    __tablename__ = "rollouts"

    number: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    name: Mapped[str] = mapped_column(String(64))
    slot: Mapped[str] = mapped_column(String(63))
    release: Mapped[str] = mapped_column(String(63))
    counter: Mapped[int] = mapped_column(BigInteger)
    target: Mapped[str] = mapped_column(String(200))
    length: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str] = mapped_column(String(64))
    terms: Mapped[str] = mapped_column(Text)
    plan: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(20), index=True)
    reason_code: Mapped[str] = mapped_column(String(32))
    reason: Mapped[str] = mapped_column(String(300))
    author: Mapped[str] = mapped_column(String(64))
    created_ms: Mapped[int] = mapped_column(BigInteger)
    changed_ms: Mapped[int] = mapped_column(BigInteger)
    started_ms: Mapped[int | None] = mapped_column(BigInteger)
    paused_ms: Mapped[int | None] = mapped_column(BigInteger)
    spent_approval: Mapped[int] = mapped_column(BigInteger, default=0)
    ended_ms: Mapped[int | None] = mapped_column(BigInteger)
    touched_ms: Mapped[int] = mapped_column(BigInteger, default=0)
    looked_ms: Mapped[int] = mapped_column(BigInteger, default=0)


class StageRow(Base):
    """One stage of a rollout, from 0.

    Attributes:
        waiting_ms: from when on its wait is counted: when it opened, or when a person had it go on.
        verdict: canonical JSON of a `StageVerdict`; None before the first.
    """

    __tablename__ = "rollout_stages"

    rollout: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    stage: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str] = mapped_column(String(16))
    opened_ms: Mapped[int | None] = mapped_column(BigInteger)
    waiting_ms: Mapped[int | None] = mapped_column(BigInteger)
    soaking_ms: Mapped[int | None] = mapped_column(BigInteger)
    closed_ms: Mapped[int | None] = mapped_column(BigInteger)
    verdict: Mapped[str | None] = mapped_column(Text)


class MemberRow(Base):
    """One device of a rollout.

    Attributes:
        bucket: of the release's salt, 0 to 9,999.
        live: the rollout has the device for its slot, and no other may.
        round: raised when a device that was decommissioned is part of it again.
        state: of `rollouts.states.MemberState`, of what `action` asks: `install`, `rollback` or `hold`.
        seq: of the newest assignment; None before the first.
        since_ms: when it came into its state; `heard_ms` is the newest report about the assignment.
        excused: a person decided to go on in spite of it.
        before_sha256, before_counter: what the slot ran when it was first asked; None for no release.
        installed, installed_code: its state and code before the rollback.
        device_values: canonical JSON, of a configuration; None for the plan's.
    """

    __tablename__ = "rollout_members"

    rollout: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    device: Mapped[str] = mapped_column(String(63), primary_key=True)
    slot: Mapped[str] = mapped_column(String(63))
    stage: Mapped[int]
    bucket: Mapped[int]
    live: Mapped[bool]
    round: Mapped[int] = mapped_column(default=0)
    action: Mapped[str] = mapped_column(String(10))
    state: Mapped[str] = mapped_column(String(16))
    code: Mapped[str | None] = mapped_column(String(32))
    seq: Mapped[int | None] = mapped_column(BigInteger)
    since_ms: Mapped[int] = mapped_column(BigInteger)
    heard_ms: Mapped[int | None] = mapped_column(BigInteger)
    excused: Mapped[bool] = mapped_column(default=False)
    before_sha256: Mapped[str | None] = mapped_column(String(64))
    before_counter: Mapped[int] = mapped_column(BigInteger, default=0)
    installed: Mapped[str | None] = mapped_column(String(16))
    installed_code: Mapped[str | None] = mapped_column(String(32))
    device_values: Mapped[str | None] = mapped_column(Text)

    __table_args__ = (
        # holds all that counting needs: 100,000 devices are counted without their rows
        Index("ix_rollout_members_state", "rollout", "state", "stage", "since_ms", "action", "excused"),
        Index(
            "uq_rollout_members_live",
            "device",
            "slot",
            unique=True,
            sqlite_where=text("live"),
            postgresql_where=text("live"),
        ),
        Index("ix_rollout_members_device", "device"),
    )


class AssignmentRow(Base):
    """One thing that a device was asked, or of which it spoke though this server does not know it.

    Attributes:
        rollout, stage, round: of what it is part; None where the server does not know it.
        action: `install`, `rollback`, `hold`; `unknown`.
        live: it is the newest for its slot and not done; the device should see it.
        state: of `MemberState`; `report_no` is that of the newest report about it.
        terminal_no: of the one terminal report; None before it.
        decided_ms: when its number was given; `issued_ms` when it was last signed, None before.
        due_ms: when it must be signed, or signed anew.
        settled_ms: when its terminal report last arrived: the device is told so.
        key_sha256, nonce: what the signature covers of the device.
        director: id of the key that signed.
    """

    __tablename__ = "assignments"

    device: Mapped[str] = mapped_column(String(63), primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    rollout: Mapped[int | None] = mapped_column(BigInteger)
    stage: Mapped[int | None]
    round: Mapped[int] = mapped_column(default=0)
    slot: Mapped[str] = mapped_column(String(63))
    action: Mapped[str] = mapped_column(String(10))
    target: Mapped[str | None] = mapped_column(String(200))
    length: Mapped[int | None] = mapped_column(BigInteger)
    sha256: Mapped[str | None] = mapped_column(String(64))
    device_values: Mapped[str | None] = mapped_column(Text)
    live: Mapped[bool]
    state: Mapped[str] = mapped_column(String(16))
    code: Mapped[str | None] = mapped_column(String(32))
    said: Mapped[str] = mapped_column(String(300), default="")
    left_as: Mapped[str | None] = mapped_column(String(16))
    report_no: Mapped[int] = mapped_column(BigInteger, default=0)
    terminal_no: Mapped[int | None] = mapped_column(BigInteger)
    decided_ms: Mapped[int] = mapped_column(BigInteger)
    changed_ms: Mapped[int] = mapped_column(BigInteger)
    settled_ms: Mapped[int | None] = mapped_column(BigInteger)
    due_ms: Mapped[int] = mapped_column(BigInteger)
    issued_ms: Mapped[int | None] = mapped_column(BigInteger)
    expires_ms: Mapped[int | None] = mapped_column(BigInteger)
    key_sha256: Mapped[str | None] = mapped_column(String(64))
    nonce: Mapped[str | None] = mapped_column(String(32))
    sealed: Mapped[bytes | None] = mapped_column(LargeBinary)
    director: Mapped[str | None] = mapped_column(String(64))

    __table_args__ = (
        Index("uq_assignments_decision", "rollout", "device", "action", "round", unique=True),
        Index("ix_assignments_due", "due_ms", sqlite_where=text("live"), postgresql_where=text("live")),
        Index("ix_assignments_paced", "rollout", "decided_ms"),
    )


class ApprovalRow(Base):
    """A person's word that a rollout may start, go on, or roll back.

    Attributes:
        digest: of what going on accepts (`rollouts.accepting`); None for a start or a rollback.
    """

    __tablename__ = "rollout_approvals"

    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    rollout: Mapped[int] = mapped_column(BigInteger, index=True)
    purpose: Mapped[str] = mapped_column(String(16))
    by: Mapped[str] = mapped_column(String(64))
    at_ms: Mapped[int] = mapped_column(BigInteger)
    note: Mapped[str] = mapped_column(String(300), default="")
    digest: Mapped[str | None] = mapped_column(String(64))


class DeviceUpdateRow(Base):
    """What is known of a device's updates.

    Attributes:
        seq: the highest sequence number that was given to an assignment, or that the device spoke of.
        report_no, boot_id, at_ms: of its newest report, by the device's own clock.
        nonce: that its next assignment repeats.
        facts: digest of what it last said of itself, a row of `device_facts`.
        reported_ms: when that came in.
    """

    __tablename__ = "device_updates"

    device: Mapped[str] = mapped_column(String(63), primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger, default=0)
    report_no: Mapped[int] = mapped_column(BigInteger, default=0)
    boot_id: Mapped[str] = mapped_column(String(64), default="")
    at_ms: Mapped[int] = mapped_column(BigInteger, default=0)
    nonce: Mapped[str | None] = mapped_column(String(32))
    facts: Mapped[str] = mapped_column(String(64))
    reported_ms: Mapped[int] = mapped_column(BigInteger)
    time_floor_ms: Mapped[int] = mapped_column(BigInteger, default=0)


class DeviceSlotRow(Base):
    """What a slot of a device runs, as it last said.

    Attributes:
        seq: of the newest assignment of this slot; 0 for none.
        report_no: of the report that said it.
    """

    __tablename__ = "device_slots"

    device: Mapped[str] = mapped_column(String(63), primary_key=True)
    slot: Mapped[str] = mapped_column(String(63), primary_key=True)
    sha256: Mapped[str | None] = mapped_column(String(64))
    counter: Mapped[int] = mapped_column(BigInteger, default=0)
    package: Mapped[str | None] = mapped_column(String(80))
    seq: Mapped[int] = mapped_column(BigInteger, default=0)
    report_no: Mapped[int] = mapped_column(BigInteger, default=0)
    reported_ms: Mapped[int] = mapped_column(BigInteger)


class FactsRow(Base):
    """What devices say of themselves, once for all that say the same (canonical JSON of a `DeviceFacts`)."""

    __tablename__ = "device_facts"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    body: Mapped[str] = mapped_column(Text)


class DesiredRow(Base):
    """What a device should see (an encoded `protocol.update_wire.Desired`): the queue of what is published.

    Attributes:
        state: `queued`, `sent`, or `cleared` for a device that was put out.
    """

    __tablename__ = "desired_states"

    device: Mapped[str] = mapped_column(String(63), primary_key=True)
    body: Mapped[bytes] = mapped_column(LargeBinary)
    state: Mapped[str] = mapped_column(String(8))
    changed_ms: Mapped[int] = mapped_column(BigInteger)
    sent_ms: Mapped[int | None] = mapped_column(BigInteger)

    __table_args__ = (Index("ix_desired_states_queue", "state", "changed_ms"),)
