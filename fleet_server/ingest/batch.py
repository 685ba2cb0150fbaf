"""What one batch of messages changes, inside a transaction that somebody else began and will commit."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy.engine import Connection

from edge_runtime.protocol.delivery import Range, Rejection, RejectionCode
from edge_runtime.protocol.update import StateReport
from edge_runtime.protocol.vocabulary import Fate
from fleet_server.ingest.dead_letters import keep_dead_letters
from fleet_server.ingest.device_records import keep_health, keep_held, keep_presence, keep_result
from fleet_server.ingest.event_log import (
    Offer,
    Verdict,
    expect_evidence,
    store_offers,
    store_whole,
    verdicts,
)
from fleet_server.ingest.parcels import (
    BundleParcel,
    DeadParcel,
    EpochParcel,
    HealthParcel,
    HeldParcel,
    OutcomesParcel,
    Parcel,
    PresenceParcel,
    Refusal,
    ResultParcel,
    StateParcel,
    SyncParcel,
)
from fleet_server.ingest.ranges import Run, ranges_of
from fleet_server.ingest.settlement import Books, EpochKey, Limits, write_ledgers
from fleet_server.ingest.state_reports import device_keys, verify
from fleet_server.rollouts.reports import take_many

_NO_ROOM = Refusal(
    RejectionCode.STORE_FAILED,
    permanent=False,
    text="too many gaps before it, or too many outbox files of this device",
)

Count = tuple[str, str]
"""What is counted, and its code: `("event", "delivered")`, `("dead_letter", "malformed")`, …"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a device is told about one outbox file.

    Attributes:
        high: every sequence number up to here is settled.
        accepted: committed beyond `high`, ascending.
        rejected: refused.
    """

    device: str
    epoch: str
    high: int
    accepted: tuple[Range, ...] = ()
    rejected: tuple[Rejection, ...] = ()


@dataclass(frozen=True, slots=True)
class Committed:
    """What a transaction did.

    Attributes:
        answers: one for each outbox file that was heard of.
        counts: for metrics.
    """

    answers: tuple[Answer, ...] = ()
    counts: Counter[Count] = field(default_factory=Counter)


class Batch:
    """The work of one transaction.

    Args:
        connection: of a transaction that has the turn of ingest.
        limits: bounds of each device.
        now_ms: the server's wall clock.
    """

    def __init__(self, connection: Connection, limits: Limits, now_ms: int) -> None:
        self._connection, self._limits, self._now_ms = connection, limits, now_ms
        self._counts: Counter[Count] = Counter()
        self._dead: list[DeadParcel] = []
        self._accepted: dict[EpochKey, list[int]] = defaultdict(list)
        self._rejected: dict[EpochKey, list[Rejection]] = defaultdict(list)
        self._resumed: dict[EpochKey, int] = {}

    def run(self, parcels: Sequence[Parcel]) -> Committed:
        """Do it; what comes back is true once the transaction is committed."""
        kept = [parcel for parcel in parcels if isinstance(parcel, EpochParcel)]
        books = Books(
            self._connection,
            [(parcel.device, parcel.epoch) for parcel in kept],
            self._limits,
            self._now_ms,
        )
        self._events([parcel for parcel in kept if isinstance(parcel, BundleParcel)], books)
        for parcel in kept:
            self._report(parcel, books)
        books.write()
        self._records(parcels)
        limits = self._limits
        keep_dead_letters(
            self._connection,
            self._dead,
            self._now_ms,
            most=limits.dead_letters,
            most_bytes=limits.dead_letter_bytes,
        )
        self._counts.update(("dead_letter", letter.code) for letter in self._dead)
        keys = dict.fromkeys((parcel.device, parcel.epoch) for parcel in kept)
        return Committed(tuple(self._answer(key, books) for key in keys), self._counts)

    def _events(self, bundles: list[BundleParcel], books: Books) -> None:
        inserted: Counter[EpochKey] = Counter()
        if not (bundles and self._whole(bundles, books, inserted)):
            self._one_by_one(bundles, books, inserted)
        for key, numbers in self._accepted.items():
            if key not in books.refused:
                runs = [Run(first, last, Fate.DELIVERED.value) for first, last in ranges_of(numbers)]
                books.settle(key, runs, inserted[key])

    def _whole(self, bundles: list[BundleParcel], books: Books, inserted: Counter[EpochKey]) -> bool:
        """Take everything, where every event may be taken and is new, which is the rule; whether that is so."""
        if not all(_may_be_taken(bundle, books) for bundle in bundles):
            return False
        new = store_whole(self._connection, bundles, self._now_ms)
        if new != sum(len(bundle.candidates) for bundle in bundles):
            offers = [offer for bundle in bundles for offer in _offers(bundle, books)]
            self._judge(offers, verdicts(self._connection, offers, new), inserted)
            return True
        grants = []
        for bundle in bundles:
            key = (bundle.device, bundle.epoch)
            self._accepted[key] += [candidate.seq for candidate in bundle.candidates]
            inserted[key] += len(bundle.candidates)
            grants += [(bundle.device, one.grant) for one in bundle.candidates if one.grant is not None]
        self._counts["event", "delivered"] += new
        expect_evidence(self._connection, grants, self._now_ms)
        return True

    def _one_by_one(self, bundles: list[BundleParcel], books: Books, inserted: Counter[EpochKey]) -> None:
        offers = [offer for bundle in bundles for offer in _offers(bundle, books)]
        if offers:
            self._judge(offers, store_offers(self._connection, offers, self._now_ms), inserted)

    def _judge(self, offers: list[Offer], found: list[Verdict], inserted: Counter[EpochKey]) -> None:
        grants = []
        for offer, verdict in zip(offers, found, strict=True):
            if verdict.refusal is not None:
                self._reject(offer, verdict.refusal)
                continue
            self._accept(offer, verdict, inserted)
            if offer.candidate.event is not None and offer.candidate.grant is not None:
                grants.append((offer.device, offer.candidate.grant))
        expect_evidence(self._connection, grants, self._now_ms)

    def _accept(self, offer: Offer, verdict: Verdict, inserted: Counter[EpochKey]) -> None:
        key = (offer.device, offer.epoch)
        self._accepted[key].append(offer.candidate.seq)
        inserted[key] += verdict.inserted
        self._counts["event", "delivered" if verdict.inserted else "duplicate"] += 1

    def _reject(self, offer: Offer, refusal: Refusal) -> None:
        candidate = offer.candidate
        rejection = Rejection(
            seq=candidate.seq,
            key=candidate.key,
            code=refusal.code,
            permanent=refusal.permanent,
            text=refusal.text,
        )
        self._rejected[offer.device, offer.epoch].append(rejection)
        self._counts["event", refusal.code.value] += 1
        # an expired event is no defect, and one that is only put off comes again
        if refusal.permanent and refusal.code is not RejectionCode.EXPIRED:
            self._dead.append(
                DeadParcel(
                    offer.device,
                    offer.channel,
                    refusal.code.value,
                    refusal.text,
                    candidate.body,
                    candidate.key,
                    candidate.seq,
                )
            )

    def _report(self, parcel: EpochParcel, books: Books) -> None:
        key = (parcel.device, parcel.epoch)
        if isinstance(parcel, BundleParcel) or key in books.refused:
            return
        self._counts["message", "sync" if isinstance(parcel, SyncParcel) else "outcomes"] += 1
        if not parcel.ledger.balances:
            self._counts["defect", "ledger_unbalanced"] += 1
        books.report(key, parcel.ledger)
        if isinstance(parcel, OutcomesParcel):
            runs = [
                Run(found.first, found.last, found.fate.value)
                for found in parcel.ranges
                # only the server knows what was delivered
                if found.fate is not Fate.DELIVERED and found.first < books.full_from(key)
            ]
            books.settle(key, runs)
        else:
            self._resumed[key] = parcel.lowest

    def _records(self, parcels: Sequence[Parcel]) -> None:
        health = [parcel for parcel in parcels if isinstance(parcel, HealthParcel)]
        write_ledgers(self._connection, keep_health(self._connection, health, self._now_ms), self._now_ms)
        if health:
            self._counts["message", "health"] += len(health)
        for parcel in parcels:
            if isinstance(parcel, PresenceParcel):
                fresh = keep_presence(
                    self._connection, parcel.presence, self._now_ms, retained=parcel.retained
                )
                self._counts["message", "presence" if fresh else "presence_stale"] += 1
            elif isinstance(parcel, HeldParcel):
                keep_held(self._connection, parcel.held, self._now_ms)
                self._counts["message", "held"] += 1
            elif isinstance(parcel, ResultParcel):
                self._counts["message", "result"] += 1
                if not keep_result(self._connection, parcel):
                    text = "no command of this device has this id"
                    code = RejectionCode.INVALID.value
                    letter = DeadParcel(parcel.device, parcel.channel, code, text, parcel.payload)
                    self._dead.append(letter)
            elif isinstance(parcel, DeadParcel):
                self._dead.append(parcel)
        self._states([parcel for parcel in parcels if isinstance(parcel, StateParcel)])

    def _states(self, parcels: Sequence[StateParcel]) -> None:
        """What devices say of their updates, as far as their own keys signed it."""
        if not parcels:
            return
        keys = device_keys(self._connection, (parcel.device for parcel in parcels), self._now_ms)
        taken: list[tuple[str, StateReport]] = []
        for parcel in parcels:
            found = verify(parcel, keys.get(parcel.device, ()))
            taken += [(parcel.device, report) for report in found.reports]
            self._dead += found.refused
        self._counts["message", "state"] += len(parcels)
        if taken:
            take_many(self._connection, taken, self._now_ms)

    def _answer(self, key: EpochKey, books: Books) -> Answer:
        progress = books.progress(key)
        accepted = ranges_of(number for number in self._accepted[key] if number > progress.high)
        if (lowest := self._resumed.get(key)) is not None:
            accepted = [
                (run.first, run.last)
                for run in progress.runs
                if run.fate == Fate.DELIVERED.value and run.last >= lowest
            ]
        return Answer(*key, progress.high, tuple(accepted), tuple(self._rejected[key]))


def _may_be_taken(bundle: BundleParcel, books: Books) -> bool:
    """Whether nothing that is known without its row speaks against any event of a bundle."""
    full_from = books.full_from((bundle.device, bundle.epoch))
    return all(
        refusal is None and event is not None and seq < full_from
        for _, seq, _, event, _, refusal in bundle.candidates
    )


def _offers(bundle: BundleParcel, books: Books) -> list[Offer]:
    device, epoch, channel, candidates = bundle.device, bundle.epoch, bundle.channel, bundle.candidates
    full_from = books.full_from((device, epoch))
    return [
        Offer(
            device,
            epoch,
            channel,
            candidate,
            candidate.refusal if candidate.seq < full_from else candidate.refusal or _NO_ROOM,
        )
        for candidate in candidates
    ]
