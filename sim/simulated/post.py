"""A simulated device's way out: the policy's decision, the outbox with its database, a link, and a server's store.

The decision and the outbox are the runtime's. The uplink is a double: it leases, sends, and settles by receipts, as
the real one does, over a link that takes time and breaks; what was under way then is gone, on either way. The
server is a set of keys with a count beside each.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from edge_runtime.clock import NS_PER_MS, NS_PER_S
from edge_runtime.outbox import Outbox, OutboxSettings, QueuedItem, Submission
from edge_runtime.policy import DecisionRequest, Policy, Usage, decide
from edge_runtime.protocol import DataClass, Severity, uuid7
from edge_runtime.protocol.delivery import Receipt
from edge_runtime.protocol.vocabulary import DecisionKind
from sim.simulated.clock import SimClock

HALF_NS = 100 * NS_PER_MS
"""From here to the server, and as long back."""

WINDOW = 64
MOST_TURNS = 50
"""Round trips in one long step."""

_UPKEEP_NS = 60 * NS_PER_S
_BODY = b"an event of the usual length, as a policy let it go; " * 6

POLICY = Policy.model_validate(
    {
        "version": 1,
        "name": "site",
        "recipients": {
            "fleet": {"place": "organisation", "accepts": ["public", "internal"], "purposes": ["operations"]}
        },
        "permits": [
            {
                "name": "all",
                "when": {},
                "to": ["fleet"],
                "purpose": "operations",
                "evidence": "none",
                "budget": {"events_per_hour": 100_000},
            }
        ],
    }
)


@dataclass(slots=True)
class _Way:
    """One bundle under way."""

    items: list[tuple[int, bytes]]
    due_ns: int
    back: bool = False


@dataclass(frozen=True, slots=True)
class Protections:
    """What is there; False where a mutant has taken it away."""

    outbox: bool = True
    receipts: bool = True
    unique_keys: bool = True
    policy_gate: bool = True


@dataclass(slots=True)
class Server:
    """What the server has.

    Attributes:
        rows: how often each key is in its table.
        unique: a key is accepted once.
    """

    unique: bool
    rows: Counter[bytes] = field(default_factory=Counter)

    def commit(self, keys: list[bytes]) -> None:
        """A bundle arrived."""
        for key in keys:
            if not self.unique or key not in self.rows:
                self.rows[key] += 1


class Post:
    """The way out of one device.

    Args:
        folder: for the outbox.
        clock: of the device.
        quota_bytes: of the outbox.
        has: which protections are there.

    Attributes:
        up: the link works.
        policy: in force; None while its file is away.
        server: what arrived.
        accepted: keys that the outbox answered for.
        held, left: events held back, and events that left without a permission.
    """

    def __init__(self, folder: Path, clock: SimClock, quota_bytes: int, has: Protections) -> None:
        self._clock, self._has = clock, has
        settings = OutboxSettings(expiry_period_s=60, ballast_bytes=0, quota_bytes=quota_bytes)
        self.outbox = Outbox(folder / "outbox", settings, clock)
        self._epoch = self.outbox.sync_point().epoch
        self.up = True
        self.policy: Policy | None = POLICY
        self.server = Server(has.unique_keys)
        self.accepted: set[bytes] = set()
        self.held = self.left = self.breaks = 0
        self._ways: list[_Way] = []
        self._upkeep_ns = clock.now_ns
        self._stepped_ns = clock.now_ns
        self._settled = 0

    def close(self) -> None:
        """End it."""
        self.outbox.close()

    def submit(self, number: int, ttl_s: float, data_class: DataClass = DataClass.INTERNAL) -> None:
        """So many events happened just now."""
        submissions = [
            found for _ in range(number) if (found := self._decided(ttl_s, data_class)) is not None
        ]
        if not submissions:
            return
        if not self._has.outbox:
            self.accepted |= {one.key for one in submissions}
            if self.up:
                self._ways.append(_Way([(0, one.key) for one in submissions], self._clock.now_ns + HALF_NS))
            return
        for at in range(0, len(submissions), 256):
            part = submissions[at : at + 256]
            for one, result in zip(part, self.outbox.put(part), strict=True):
                if result.accepted and one.kind is DecisionKind.SEND:
                    self.accepted.add(one.key)

    def _decided(self, ttl_s: float, data_class: DataClass) -> Submission | None:
        request = DecisionRequest(
            data_class=data_class,
            severity=Severity.NOTICE,
            camera="front",
            rule="empty",
            kind="absence",
            usage={"all": Usage()},
        )
        decision = decide(request, self.policy)
        kind = decision.kind
        if not self._has.policy_gate:
            kind = DecisionKind.SEND
        if self.policy is None and kind is DecisionKind.SEND:
            self.left += 1
        self.held += kind is DecisionKind.HOLD
        key = bytes.fromhex(uuid7(self._clock.wall().unix_ns).replace("-", ""))
        return Submission(key, kind, 1, round(ttl_s * NS_PER_S), _BODY)

    def cut(self) -> None:
        """The connection breaks: what was under way is gone, on either way."""
        self.breaks += 1
        self._ways.clear()
        if self._has.outbox:
            self.outbox.unlease(owner=self, tried=True)

    def step(self) -> None:
        """What is due now."""
        now_ns = self._clock.now_ns
        if now_ns - self._upkeep_ns >= _UPKEEP_NS:
            self._upkeep_ns = now_ns
            self.outbox.upkeep_now()
        if not self.up:
            return
        # a long step is as long as many round trips: they all fit into it
        turns = 1 + min(MOST_TURNS, (now_ns - self._stepped_ns) // (2 * HALF_NS))
        self._stepped_ns = now_ns
        for _ in range(turns):
            self._move(now_ns)
            self._send(now_ns)

    def _move(self, now_ns: int) -> None:
        for way in [way for way in self._ways if way.due_ns <= now_ns]:
            self._ways.remove(way)
            if way.back:
                self._settle(way.items)
                continue
            self.server.commit([key for _, key in way.items])
            if self._has.outbox and self._has.receipts:
                self._ways.append(_Way(way.items, way.due_ns + HALF_NS, back=True))
        for way in [way for way in self._ways if way.back and way.due_ns <= now_ns]:
            self._ways.remove(way)
            self._settle(way.items)

    def _send(self, now_ns: int) -> None:
        if not self._has.outbox:
            return
        items: list[QueuedItem] = self.outbox.lease(WINDOW, 1 << 20, owner=self)
        if not items:
            return
        sent = [(item.seq, item.key) for item in items]
        self._ways.append(_Way(sent, now_ns + HALF_NS))
        if not self._has.receipts:
            self._settle(sent)

    def _settle(self, items: list[tuple[int, bytes]]) -> None:
        ranges = tuple((seq, seq) for seq, _ in sorted(items))
        receipt = Receipt(
            epoch=self._epoch,
            high=0,
            accepted=ranges,
            credit=4,
            server_ms=self._clock.wall().unix_ns // NS_PER_MS,
        )
        self._settled += self.outbox.settle(self._epoch, receipt).delivered

    def waiting(self) -> int:
        """Events that are accepted and of which no receipt has come yet, those that expired among them."""
        return len(self.accepted) - self._settled if self._has.outbox else 0

    def expired(self) -> int:
        """Events that were given up for their age."""
        return self.outbox.status().ledger.expired

    def missing(self) -> int:
        """Events that were accepted, that the server has not, and that nobody accounts for."""
        ledger = self.outbox.status().ledger
        given_up = ledger.queued + ledger.expired + ledger.evicted + ledger.rejected + ledger.lost
        away = len(self.accepted - set(self.server.rows))
        return max(0, away - (given_up if self._has.outbox else 0))
