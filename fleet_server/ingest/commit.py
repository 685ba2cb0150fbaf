"""One transaction: everything a batch of messages changes, or nothing of it; the receipts come out of it.

Whoever calls sends the receipts after the commit and acknowledges the messages last. Until then nothing was said to
anybody, so an exception here loses nothing: the same batch may be committed again.
"""

from collections import Counter
from collections.abc import Sequence

import structlog
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

from edge_runtime.protocol.delivery import RejectionCode
from fleet_server.ingest.batch import Batch, Committed, Count
from fleet_server.ingest.parcels import BundleParcel, Candidate, DeadParcel, Parcel, Refusal
from fleet_server.ingest.settlement import Limits
from fleet_server.storage.engine import Store
from fleet_server.storage.writing import INGEST_LOCK, take_turn

_UNSTORABLE = (DataError, IntegrityError, OverflowError, UnicodeError)
"""The database is well and refuses a value: trying again changes nothing."""


class Committer:
    """Commits batches.

    Args:
        store: the database.
        limits: bounds of each device.
    """

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store, self._limits = store, limits

    def commit(self, parcels: Sequence[Parcel], now_ms: int) -> Committed:
        """Commit a batch.

        A value that the database refuses spoils only its own event: the batch is then committed message by message,
        and that event is rejected for good.

        Args:
            parcels: messages in order of arrival.
            now_ms: the server's wall clock.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is away, full or read-only; nothing was committed.
        """
        try:
            return self._transaction(parcels, now_ms)
        except _UNSTORABLE as error:
            return self._commit_apart(parcels, now_ms, error)
        except SQLAlchemyError:
            raise
        except Exception as error:  # noqa: BLE001 - a defect of ours must not make one message stop all others
            return self._commit_apart(parcels, now_ms, error)

    def _commit_apart(self, parcels: Sequence[Parcel], now_ms: int, error: Exception) -> Committed:
        """A batch in which something cannot be kept: part by part, until that something is alone."""
        if len(parcels) != 1:
            return _together([self.commit([parcel], now_ms) for parcel in parcels])
        (parcel,) = parcels
        if isinstance(parcel, BundleParcel) and len(parcel.candidates) > 1:
            single = [_only(parcel, candidate) for candidate in parcel.candidates]
            return _together([self.commit([alone], now_ms) for alone in single])
        code, text = RejectionCode.STORE_FAILED, f"it cannot be stored: {type(error).__name__}"
        structlog.get_logger().error("an event or message cannot be stored", error=type(error).__name__)
        if isinstance(parcel, BundleParcel):
            refused = _refuse(parcel.candidates[0], Refusal(code, permanent=True, text=text))
            return self._transaction([_only(parcel, refused)], now_ms)
        letter = DeadParcel(parcel.device, parcel.channel, code.value, text, b"")
        return self._transaction([letter], now_ms)

    def _transaction(self, parcels: Sequence[Parcel], now_ms: int) -> Committed:
        with self._store.engine.begin() as connection:
            take_turn(connection, INGEST_LOCK)
            return Batch(connection, self._limits, now_ms).run(parcels)


def _only(parcel: BundleParcel, candidate: Candidate) -> BundleParcel:
    return BundleParcel(parcel.device, parcel.epoch, parcel.channel, (candidate,))


def _refuse(candidate: Candidate, refusal: Refusal) -> Candidate:
    return candidate._replace(event=None, grant=None, refusal=refusal)


def _together(parts: Sequence[Committed]) -> Committed:
    """Several transactions as one result; a device gets an answer for each, which is right though longer."""
    answers = tuple(answer for part in parts for answer in part.answers)
    counts: Counter[Count] = Counter()
    for part in parts:
        counts.update(part.counts)
    return Committed(answers, counts)
