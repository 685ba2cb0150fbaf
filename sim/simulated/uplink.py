"""A simulated device's way out: the policy's decision, the outbox with its database, a link, and a server's store.

The decision and the outbox are the runtime's. The uplink is a double: it leases, sends, and settles by receipts, as
the real one does, over a link that takes time and breaks; what was under way then is gone, on either way. The
server is a set of keys with a count beside each. Whoever answers in its place in a portal's network says yes to
everything, and an uplink that does not ask who it speaks to believes it.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from edge_runtime.clock import NS_PER_MS, NS_PER_S
from edge_runtime.outbox import Outbox, OutboxSettings, QueuedItem, Submission
from edge_runtime.outbox.database import StandardDatabase
from edge_runtime.policy import DecisionRequest, Policy, Usage, decide
from edge_runtime.protocol import DataClass, Severity, uuid7
from edge_runtime.protocol.delivery import Receipt
from edge_runtime.protocol.vocabulary import DecisionKind
from sim.scenario.policy import SITE_POLICY
from sim.simulated.clock import SimClock

HALF_NS = 100 * NS_PER_MS
"""From here to the server, and as long back."""

WINDOW = 64
MOST_WINDOWS = 50
"""Sent at once in one long step."""

QUOTA_BYTES = 64 << 20

_UPKEEP_NS = 60 * NS_PER_S
_BODY = b"an event of the usual length, as a policy let it go; " * 6

POLICY = Policy.model_validate(SITE_POLICY)


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
    server_identity: bool = True


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


class Uplink:
    """The way out of one device.

    Args:
        folder: for the outbox.
        clock: of the device.
        has: which protections are there.

    Attributes:
        up: the link works.
        frozen: nothing gets through, and nobody is told.
        portal: something else answers in the server's place.
        late_ns: more than a link takes otherwise, one way.
        bytes_per_s: that get through; None for as many as there are.
        policy: in force; None while its file is away.
        server: what arrived.
        held, left: events held back, and events that left without a permission.
        refused: events that the outbox did not accept.
        breaks: open connections that broke.
    """

    def __init__(self, folder: Path, clock: SimClock, has: Protections) -> None:
        self._clock, self._has = clock, has
        settings = OutboxSettings(expiry_period_s=60, ballast_bytes=0, quota_bytes=QUOTA_BYTES)
        self._database: StandardDatabase
        self.outbox = Outbox(folder / "outbox", settings, clock, connect=self._opened)
        self._epoch = self.outbox.sync_point().epoch
        self.up, self.frozen, self.portal = True, False, False
        self.late_ns = 0
        self.bytes_per_s: float | None = None
        self.policy: Policy | None = POLICY
        self.server = Server(has.unique_keys)
        self.held = self.left = self.refused = self.breaks = 0
        self._accepted = self._limit = 0
        self._tokens = 0.0
        self._ways: list[_Way] = []
        self._upkeep_ns = clock.now_ns
        self._stepped_ns = clock.now_ns
        self._settled = 0

    def _opened(self, path: Path | None) -> StandardDatabase:
        self._database = StandardDatabase(path)
        return self._database

    def fill_disk(self) -> None:
        """The database gets no page more, as on a disk that is full; SQLite says so to whoever needs one."""
        ((self._limit,),) = self._database.execute("PRAGMA max_page_count")
        ((pages,),) = self._database.execute("PRAGMA page_count")
        self._database.execute(f"PRAGMA max_page_count = {pages}")

    def free_disk(self) -> None:
        """There is room again."""
        self._database.execute(f"PRAGMA max_page_count = {self._limit}")

    def close(self) -> None:
        """End it."""
        self.outbox.close()

    def submit(self, number: int, ttl_s: float) -> set[bytes]:
        """So many events happened just now; keys of those that may leave and were accepted."""
        submissions = [self._decided(ttl_s) for _ in range(number)]
        accepted: set[bytes] = set()
        if not self._has.outbox:
            accepted = {one.key for one in submissions}
            if self.up and submissions:
                self._ways.append(_Way([(0, one.key) for one in submissions], self._due_ns()))
            submissions = []
        for at in range(0, len(submissions), 256):
            part = submissions[at : at + 256]
            for one, result in zip(part, self.outbox.put(part), strict=True):
                self.refused += not result.accepted
                if result.accepted and one.kind is DecisionKind.SEND:
                    accepted.add(one.key)
        self._accepted += len(accepted)
        return accepted

    def _due_ns(self) -> int:
        return self._clock.now_ns + HALF_NS + self.late_ns

    def _decided(self, ttl_s: float) -> Submission:
        request = DecisionRequest(
            data_class=DataClass.INTERNAL,
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
        self.breaks += self.up
        self._ways.clear()
        if self._has.outbox:
            self.outbox.unlease(owner=self, tried=True)

    def step(self) -> None:
        """What is due now."""
        now_ns = self._clock.now_ns
        if now_ns - self._upkeep_ns >= _UPKEEP_NS:
            self._upkeep_ns = now_ns
            self.outbox.upkeep_now()
        passed_ns, self._stepped_ns = now_ns - self._stepped_ns, now_ns
        if self.bytes_per_s is not None:
            self._tokens = min(self.bytes_per_s, self._tokens + self.bytes_per_s * passed_ns / NS_PER_S)
        if self.frozen:
            self._send()  # nobody has told it
            return
        if self.portal and not self._has.server_identity:
            self._settle(self._leased())
        if not self.up:
            return
        self._move(now_ns)
        # one window for each round trip that fits into the step; what it sends arrives in a later one
        for _ in range(1 + min(MOST_WINDOWS, passed_ns // (2 * HALF_NS))):
            self._send()

    def _move(self, now_ns: int) -> None:
        for way in [way for way in self._ways if way.due_ns <= now_ns]:
            self._ways.remove(way)
            if way.back:
                self._settle(way.items)
                continue
            self.server.commit([key for _, key in way.items])
            if self._has.outbox and self._has.receipts:
                self._ways.append(_Way(way.items, way.due_ns + HALF_NS + self.late_ns, back=True))
        for way in [way for way in self._ways if way.back and way.due_ns <= now_ns]:
            self._ways.remove(way)
            self._settle(way.items)

    def _send(self) -> None:
        sent = self._leased()
        if not sent:
            return
        self._ways.append(_Way(sent, self._due_ns()))
        if not self._has.receipts:
            self._settle(sent)

    def _leased(self) -> list[tuple[int, bytes]]:
        """What goes on its way now."""
        most = WINDOW if self.bytes_per_s is None else min(WINDOW, int(self._tokens / len(_BODY)))
        if not self._has.outbox or not most:
            return []
        items: list[QueuedItem] = self.outbox.lease(most, 1 << 20, owner=self)
        self._tokens = max(0.0, self._tokens - len(items) * len(_BODY))
        return [(item.seq, item.key) for item in items]

    def _settle(self, items: list[tuple[int, bytes]]) -> None:
        if not items:
            return
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
        return self._accepted - self._settled if self._has.outbox else 0
