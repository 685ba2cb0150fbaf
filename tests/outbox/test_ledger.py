"""The ledger against a model of it, whatever the order of calls, restarts and passing time."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from edge_runtime.outbox import Outbox, Put
from edge_runtime.outbox.schema import ROW_OVERHEAD
from edge_runtime.protocol.delivery import Rejection, RejectionCode
from tests.rigs.outbox import BootClock, hand_out, quiet_settings, receipt, submission

SETTINGS = quiet_settings(quota_bytes=64 * 1024, reserve_share=0.2, decisions_kept=10_000)


class LedgerMachine(RuleBasedStateMachine):
    """Every number has at most one fate; the sums balance; the quota holds; numbers are dense."""

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.clock = BootClock()
        self.number = 0
        self.accepted = 0
        self.refused = 0
        self.delivered = 0
        self.rejected = 0
        self.open()

    def open(self) -> None:
        self.outbox = Outbox(Path(self.folder.name) / "outbox", SETTINGS, self.clock)
        self.epoch = self.outbox.sync_point().epoch

    @rule(
        severities=st.lists(st.integers(0, 3), min_size=1, max_size=12),
        size=st.sampled_from((10, 300, 4000, 16_000)),
        ttl_s=st.sampled_from((0, 5, 3600)),
    )
    def put(self, severities: list[int], size: int, ttl_s: int) -> None:
        items = [
            submission(self.number + i, severity, ttl_s=ttl_s, body=bytes(size))
            for i, severity in enumerate(severities)
        ]
        self.number += len(items)
        results = self.outbox.put(items)
        self.accepted += sum(result.outcome is Put.ACCEPTED for result in results)
        self.refused += sum(result.outcome is Put.NOT_ACCEPTED for result in results)

    @rule(number=st.integers(0, 50))
    def put_again(self, number: int) -> None:
        if number < self.number:
            result = self.outbox.put([submission(number)])[0]
            self.accepted += result.outcome is Put.ACCEPTED  # it was refused before
            self.refused += result.outcome is Put.NOT_ACCEPTED

    @rule(share=st.integers(1, 20), refuse=st.booleans(), permanent=st.booleans())
    def deliver(self, share: int, refuse: bool, permanent: bool) -> None:
        items = self.outbox.lease(share, 100_000)
        refused = items[:1] if refuse else []
        words = [
            Rejection(seq=item.seq, key=item.key, code=RejectionCode.INVALID, permanent=permanent)
            for item in refused
        ]
        taken = [(item.seq, item.seq) for item in items[len(refused) :]]
        settled = self.outbox.settle(
            self.epoch, receipt(self.epoch, accepted=taken, rejected=words, wall_ns=self.clock.unix_ns)
        )
        assert settled.delivered == len(taken)
        assert settled.rejected == (len(refused) if permanent else 0)
        self.delivered += settled.delivered
        self.rejected += settled.rejected

    @rule(high=st.integers(0, 60))
    def settle_up_to(self, high: int) -> None:
        high = min(high, self.outbox.sync_point().next - 1)
        self.outbox.upkeep_now()  # what has run out is not handed out, so no server can have it
        hand_out(self.outbox)
        word = receipt(self.epoch, high=high, wall_ns=self.clock.unix_ns)
        self.delivered += self.outbox.settle(self.epoch, word).delivered

    @rule(seconds=st.sampled_from((1, 6, 4000)))
    def wait(self, seconds: int) -> None:
        self.clock.pass_s(seconds)
        self.outbox.upkeep_now()

    @rule(reboot=st.booleans())
    def restart(self, reboot: bool) -> None:
        before = self.outbox.sync_point()
        self.outbox.close()
        if reboot:
            self.clock.reboot(off_s=3)
        self.open()
        assert self.outbox.sync_point() == before

    @invariant()
    def balances(self) -> None:
        if not hasattr(self, "outbox"):
            return
        status, point = self.outbox.status(), self.outbox.sync_point()
        ledger = status.ledger
        assert ledger.balances
        assert (ledger.accepted, ledger.delivered, ledger.rejected) == (
            self.accepted,
            self.delivered,
            self.rejected,
        )
        assert sum(status.not_accepted.values()) == self.refused
        assert point.next == ledger.accepted + 1  # dense: one number for each accepted event
        entries = self.outbox.queued(1000)
        assert ledger.queued == len(entries) == sum(status.queued_by_severity)
        assert status.bytes == sum(entry.bytes + ROW_OVERHEAD for entry in entries) <= status.quota_bytes
        ended = {n for found in self.outbox.outcomes(1000) for n in range(found.first, found.last + 1)}
        assert not ended & {entry.seq for entry in entries}

    def teardown(self) -> None:
        if hasattr(self, "outbox"):
            self.outbox.close()
            self.folder.cleanup()


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
