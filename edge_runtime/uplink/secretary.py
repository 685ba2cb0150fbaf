"""Everything but events: presence, outcomes, health, held items, and the server's commands."""

from collections import Counter

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.outbox import OutboxStatus
from edge_runtime.protocol.delivery import Presence
from edge_runtime.protocol.operation import Command, CommandKind, CommandResult, HeldList
from edge_runtime.protocol.topics import Channel
from edge_runtime.telemetry import get_logger
from edge_runtime.uplink.commands import Refused, ServerTime, examine
from edge_runtime.uplink.courier import Courier
from edge_runtime.uplink.letters import Letter, Letters
from edge_runtime.uplink.link import LinkMeter
from edge_runtime.uplink.ports import CommandAnswer, Hands
from edge_runtime.uplink.post import Post
from edge_runtime.uplink.reports import HealthReport, HeldReport, OutcomeReport, outcomes
from edge_runtime.uplink.settings import UplinkSettings
from edge_runtime.uplink.workers import Answered, CommandWorker

_STATUS_NS = 10 * NS_PER_S
"""How often the outbox is asked how it is."""


class Secretary:
    """Writes and publishes letters, and takes commands.

    Args:
        device: id.
        settings: for the periods.
        hands: what the composition handed in.
        letters, post: where letters wait, and how they go out.
        courier: for what the outbox knows.
        link: for health.
        worker: carries out commands.
        clock: time.

    Attributes:
        refused: messages on the command topic that were not carried out, by reason.
        renewal_asked: the server asked for a renewal of the certificate; whoever does it clears this.
    """

    def __init__(
        self,
        device: str,
        settings: UplinkSettings,
        *,
        hands: Hands,
        letters: Letters,
        post: Post,
        courier: Courier,
        link: LinkMeter,
        worker: CommandWorker,
        clock: Clock,
    ) -> None:
        self._device, self._hands, self._letters, self._post = device, hands, letters, post
        self._courier, self._worker, self._clock = courier, worker, clock
        self._period_ns = int(settings.report_period_s * NS_PER_S)
        self._health = HealthReport(device, settings.health_period_s, hands, link, clock)
        self._held = HeldReport()
        self._outcomes = OutcomeReport()
        self._server_time = ServerTime(clock)
        self._next_ns: int | None = None
        self._status: OutboxStatus | None = None
        self._status_ns = 0
        self.refused: Counter[str] = Counter()
        self.renewal_asked = False

    def connected(self, birth: Presence, now_ns: int) -> None:
        """A session is there, and subscribed."""
        self._letters.put(Letter(Channel.PRESENCE, birth.encode(), retained=True))
        for report in (self._health, self._held, self._outcomes):
            report.connected()
        self._next_ns = now_ns

    def disconnected(self) -> None:
        """The session is over."""
        self._letters.disconnected()
        self._next_ns = None

    def server_time(self, server_ms: int) -> None:
        """A receipt said what time it is."""
        self._server_time.heard(server_ms)

    def command(self, payload: bytes, *, retained: bool) -> None:
        """A message on the command topic."""
        found = examine(payload, self._device, self._server_time.now_ms(), retained=retained)
        if isinstance(found, Refused):
            self.refused[found.why] += 1
            get_logger().warning("a command was refused", why=found.why)
            if found.command is not None:
                self._answer(
                    found.command, CommandAnswer(done=False, text=f"refused by the device: {found.why}")
                )
        elif not self._worker.submit(found):
            self.refused["too_many"] += 1
            self._answer(
                found, CommandAnswer(done=False, text="refused by the device: too many commands wait")
            )

    def answered(self, event: Answered, session: int, sentences: tuple[str, ...], now_ns: int) -> None:
        """The worker is done with a command; what is only a message of ours is written here."""
        kind, answer = event.command.kind, event.answer
        if answer.done and kind is CommandKind.REPORT_HEALTH:
            self.write_health(session, sentences, now_ns)
        elif answer.done and kind is CommandKind.REPORT_HELD:
            if not self._write_held(now_ns, asked=True):
                answer = CommandAnswer(done=False, text="this device cannot list its held items now")
        elif answer.done and kind is CommandKind.RENEW_CERTIFICATE:
            self.renewal_asked = True
        elif kind in (CommandKind.RELEASE_HELD, CommandKind.DROP_HELD):
            self._write_held(now_ns, asked=True)
        self._answer(event.command, answer)

    def work(self, session: int, sentences: tuple[str, ...], now_ns: int) -> None:
        """Write what is due, and publish what waits."""
        if self._next_ns is not None and now_ns >= self._next_ns:
            self._next_ns = now_ns + self._period_ns
            self._write_outcomes(now_ns)
            self._write_held(now_ns)
            if now_ns >= self._status_ns:
                self._status_ns = now_ns + _STATUS_NS
                self._status = self._courier.status() or self._status
            if self._health.due(sentences, now_ns):
                self.write_health(session, sentences, now_ns)
        self.publish()

    def publish(self) -> None:
        """Publish what waits, as far as the broker takes it."""
        while self._post.room and (letter := self._letters.next()) is not None:
            mid = self._post.publish(letter.channel, letter.payload, retained=letter.retained)
            if mid is None:
                return
            self._letters.sent(letter, mid)

    def write_outcomes_now(self, now_ns: int) -> None:
        """Whatever the server does not know yet, before a clean end."""
        self._outcomes.connected()
        self._write_outcomes(now_ns)

    def write_health(self, session: int, sentences: tuple[str, ...], now_ns: int) -> None:
        """Health, as it is now."""
        self._status = self._courier.status() or self._status
        record = self._health.record(session, self._status, sentences, now_ns)
        self._letters.put(Letter(Channel.HEALTH, record.encode()))

    def outbox_sentences(self) -> tuple[str, ...]:
        """What the outbox said about itself when it was last asked."""
        return () if self._status is None else self._status.sentences

    def wake_ns(self) -> int | None:
        """When `work` has something to write."""
        return self._next_ns

    def _write_outcomes(self, now_ns: int) -> None:
        ranges = self._courier.outcomes()
        if ranges is None or not self._outcomes.due(ranges, now_ns):
            return
        point = self._courier.sync_point()
        if point is not None:
            report = outcomes(self._device, point.epoch, ranges, point.ledger)
            self._letters.put(Letter(Channel.OUTCOME, report.encode()))

    def _write_held(self, now_ns: int, *, asked: bool = False) -> bool:
        held = self._held_list()
        message = self._held.due(held, now_ns, asked=asked)
        if message is not None:
            self._letters.put(Letter(Channel.HELD, message))
        return held is not None

    def _held_list(self) -> HeldList | None:
        try:
            return self._hands.held()
        except Exception as error:  # noqa: BLE001 - whatever a hand does wrong costs one report, and is logged
            get_logger().error("held items cannot be listed", exc_info=error)
            return None

    def _answer(self, command: Command, answer: CommandAnswer) -> None:
        result = CommandResult(id=command.id, device=self._device, done=answer.done, text=answer.text)
        self._letters.put(Letter(Channel.RESULT, result.encode()))
