"""Limits of the outbox. Every one of them is finite."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_MIB = 1024 * 1024
Bytes = Annotated[int, Field(ge=64 * 1024, le=1 << 40)]
Share = Annotated[float, Field(ge=0, le=0.9)]


class OutboxSettings(BaseModel):
    """What the outbox may take, and for how long.

    Attributes:
        quota_bytes: all queued events together, each with 128 bytes for its row.
        held_quota_bytes: the same for what waits for a person.
        evidence_quota_bytes: crops that wait for a person or an upload.
        reserve_share: part of the quota that only critical events may use, 0 to 0.9.
        ballast_bytes: a file that is given up when the disk is full, so that deletes and the ledger still fit. The
            log may be as long: with 4 MiB it is put back to its beginning after 1,000 pages. A disk that has less
            than twice as much left holds a quarter.
        expiry_period_s: how often expired events are looked for.
        evidence_keep_s: a crop that was not uploaded for so long is given up.
        decisions_kept: newest decision receipts that are kept; also how far back duplicates are recognised. At
            least 1024, four times the largest put: whoever got no answer sends the same put again before anything
            else, and what others add meanwhile must not push its keys out. Their keys are in memory, about 100
            bytes each.
        dead_letters_kept: newest events that the server refused for good.
        quarantine_kept: damaged files that are kept; the oldest beyond it are deleted, and that is said.
        volatile_bytes: events in memory while the disk cannot be written.
        retry_disk_s: how often a disk that could not be written is tried again.
        jump_share: a correction of the clock that would expire more than this share of the queue waits for
            confirmation, 0 to 0.9.
        jump_confirm_s: between two readings that confirm each other.
        max_connections: processes that may be connected at once.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    quota_bytes: Bytes = 64 * _MIB
    held_quota_bytes: Bytes = 16 * _MIB
    evidence_quota_bytes: Bytes = 256 * _MIB
    reserve_share: Share = 0.1
    ballast_bytes: Annotated[int, Field(ge=0, le=64 * _MIB)] = 4 * _MIB
    expiry_period_s: Annotated[float, Field(ge=0.05, le=60)] = 1.0
    evidence_keep_s: Annotated[float, Field(ge=1, le=400 * 86400)] = 7 * 86400.0
    decisions_kept: Annotated[int, Field(ge=1024, le=1_000_000)] = 10_000
    dead_letters_kept: Annotated[int, Field(ge=1, le=100_000)] = 200
    quarantine_kept: Annotated[int, Field(ge=1, le=100)] = 4
    volatile_bytes: Bytes = 4 * _MIB
    retry_disk_s: Annotated[float, Field(ge=0.05, le=3600)] = 30.0
    jump_share: Share = 0.2
    jump_confirm_s: Annotated[float, Field(ge=0.05, le=3600)] = 60.0
    max_connections: Annotated[int, Field(ge=1, le=1000)] = 64
