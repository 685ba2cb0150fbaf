"""The line to the broker: one session after the other, with the waits between them.

It owns no thread and blocks nowhere: the engine tells it what happened and what time it is.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from edge_runtime.clock import NS_PER_S
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.protocol.delivery import Presence, PresenceState
from edge_runtime.protocol.topics import Channel, Topic
from edge_runtime.telemetry import get_logger
from edge_runtime.uplink.backoff import Ending, Reconnect
from edge_runtime.uplink.memory import BrokerMemory
from edge_runtime.uplink.ports import LinkIdentity
from edge_runtime.uplink.session import MqttSession
from edge_runtime.uplink.session_records import Connected, Ended, SessionEvent, Target
from edge_runtime.uplink.settings import ProtocolChoice, UplinkSettings

MAX_HANGING = 8
"""Threads that still wait for a network call of an attempt that was given up."""


class TooManyHanging(RuntimeError):
    """Attempts to connect hang in the system and never return; only a new process helps."""


@dataclass(slots=True)
class _Attempt:
    session: MqttSession
    number: int
    deadline_ns: int
    since_ns: int | None = None


class Line:
    """Connects, and says when to try again.

    Args:
        settings: of the uplink.
        memory: which brokers speak MQTT 5.
        presence: makes a presence record of a session number, a state and a reason.
        tell: given every event of every session, from the session's threads.
        rng: for jitter.

    Attributes:
        trouble: why there is no connection, a sentence; None while there is one.
        attempts: to connect, since the process began.
        sessions: that were established.
    """

    def __init__(
        self,
        settings: UplinkSettings,
        memory: BrokerMemory,
        presence: Callable[[int, PresenceState, str], Presence],
        tell: Callable[[MqttSession, SessionEvent], None],
        rng: random.Random,
    ) -> None:
        self._settings, self._memory, self._presence, self._tell = settings, memory, presence, tell
        self._reconnect = Reconnect(settings.reconnect, rng)
        self._attempt: _Attempt | None = None
        self._hanging: list[MqttSession] = []
        self._next_ns = 0
        self._fall_back = False
        self.trouble: str | None = "not connected yet"  # edge_runtime.node.way_out looks for it
        self.attempts = 0
        self.sessions = 0

    @property
    def online(self) -> MqttSession | None:
        """The established session, or None."""
        attempt = self._attempt
        return attempt.session if attempt is not None and attempt.since_ns is not None else None

    @property
    def number(self) -> int:
        """Number of the present session or attempt; 0 while there is none."""
        return 0 if self._attempt is None else self._attempt.number

    def alarm(self, now_ns: int) -> bool:
        """Whether another client seems to use this device's identity, or did a while ago."""
        return self._reconnect.alarm(now_ns)

    def is_mine(self, session: MqttSession) -> bool:
        """Whether an event is of the present session, not of one that was given up."""
        return self._attempt is not None and self._attempt.session is session

    def wants_attempt(self, now_ns: int) -> bool:
        """Whether it is time to connect."""
        return self._attempt is None and now_ns >= self._next_ns

    def begin(self, identity: LinkIdentity, number: int, now_ns: int) -> None:
        """Begin to connect.

        Args:
            identity: the device's, as it is now.
            number: of the session, larger than all before.
            now_ns: monotonic time.

        Raises:
            TooManyHanging: earlier attempts never came back.
        """
        self._hanging = [session for session in self._hanging if session.hangs]
        if len(self._hanging) >= MAX_HANGING:
            raise TooManyHanging
        self.attempts += 1
        broker = self._settings.broker or identity.broker
        try:
            tls = identity.tls()
        except (EdgeRuntimeError, OSError, ValueError) as error:  # TLS errors are OSError
            why = str(error) if isinstance(error, EdgeRuntimeError) else type(error).__name__
            self._wait(Ended(f"the device's certificate cannot be used: {why}"), 0.0, now_ns)
            return
        target = Target(
            client_id=identity.client_id or identity.device,
            address=broker,
            tls=tls,
            mqtt5=self._speaks_mqtt5(identity),
            proxy=self._settings.proxy,
            will_topic=str(Topic(identity.device, Channel.PRESENCE)),
            will=self._presence(number, PresenceState.OFFLINE, "connection_lost").encode(),
            keepalive_s=self._settings.keepalive_s,
            connect_timeout_s=self._settings.connect_timeout_s,
            will_delay_s=self._settings.will_delay_s,
            session_expiry_s=self._settings.session_expiry_s,
        )
        session = MqttSession(target, self._tell)
        limit_ns = int(2 * self._settings.connect_timeout_s * NS_PER_S)
        self._attempt = _Attempt(session, number, now_ns + limit_ns)
        session.start()

    def connected(self, identity: LinkIdentity, _event: Connected, now_ns: int) -> None:
        """The present session was accepted."""
        if self._attempt is None:
            return
        self._attempt.since_ns = now_ns
        self.trouble = None
        self.sessions += 1
        if self._settings.protocol is ProtocolChoice.AUTO:
            broker = self._settings.broker or identity.broker
            self._memory.learn(broker, mqtt5=self._attempt.session.mqtt5)
        self._fall_back = False

    def ended(self, event: Ended, now_ns: int) -> None:
        """The present session is over."""
        attempt = self._attempt
        if attempt is None:
            return
        lived_s = 0.0 if attempt.since_ns is None else (now_ns - attempt.since_ns) / NS_PER_S
        self._attempt = None
        if attempt.session.hangs:
            self._hanging.append(attempt.session)
        auto = self._settings.protocol is ProtocolChoice.AUTO
        if auto and event.unsupported and attempt.session.mqtt5 and not self._fall_back:
            self._fall_back = True
            self.trouble = event.text
            self._next_ns = now_ns
            return
        self._fall_back = False
        self._wait(event, lived_s, now_ns)

    def renew(self, why: str, now_ns: int) -> None:
        """Give up the present session or attempt, for a reason of our own."""
        attempt = self._attempt
        if attempt is None:
            return
        attempt.session.close()
        lived_s = 0.0 if attempt.since_ns is None else (now_ns - attempt.since_ns) / NS_PER_S
        self._attempt = None
        if attempt.session.hangs:
            self._hanging.append(attempt.session)
        self._wait(Ended(why), lived_s, now_ns, Ending.OWN if attempt.since_ns is not None else None)

    def close(self) -> None:
        """Say goodbye, and do not come back."""
        if self._attempt is not None:
            self._attempt.session.close()
            self._attempt = None
        self._next_ns = 1 << 62

    def tick(self, now_ns: int) -> Ended | None:
        """Look at the clock: an attempt that takes too long is given up.

        Returns:
            That ending, or None.
        """
        attempt = self._attempt
        if attempt is None:
            return None
        if attempt.since_ns is not None:
            self._reconnect.stable((now_ns - attempt.since_ns) / NS_PER_S)
            return None
        if now_ns < attempt.deadline_ns:
            return None
        attempt.session.close()
        ended = Ended("the broker did not answer in time", unsupported=False)
        self.ended(ended, now_ns)
        return ended

    def comes_by(self, when_ns: int) -> bool:
        """Whether there is a session or an attempt, or one will be made by then."""
        return self._attempt is not None or self._next_ns <= when_ns

    def wake_ns(self) -> int | None:
        """When `tick` or `wants_attempt` may change."""
        if self._attempt is None:
            return self._next_ns
        return self._attempt.deadline_ns if self._attempt.since_ns is None else None

    def _speaks_mqtt5(self, identity: LinkIdentity) -> bool:
        choice = self._settings.protocol
        if choice is not ProtocolChoice.AUTO:
            return choice is ProtocolChoice.V5
        return not self._fall_back and self._memory.speaks_mqtt5(self._settings.broker or identity.broker)

    def _wait(self, event: Ended, lived_s: float, now_ns: int, ending: Ending | None = None) -> None:
        if ending is None:
            ending = _ending(event, lived_s)
        takeovers = self._reconnect.takeovers
        wait_s = self._reconnect.wait_s(ending, lived_s, now_ns)
        if self._reconnect.takeovers > takeovers:
            get_logger().error(
                "takeover alarm: another client connects with this device's identity",
                takeovers=self._reconnect.takeovers,
                do="revoke this device at the server, and enrol each machine with a token of its own",
            )
        self.trouble = event.text
        self._next_ns = now_ns + int(wait_s * NS_PER_S)
        get_logger().warning(
            "not connected", why=event.text, again_in_s=round(wait_s, 1), failures=self._reconnect.failures
        )


def _ending(event: Ended, lived_s: float) -> Ending:
    if event.taken_over:
        return Ending.TAKEN_OVER
    if event.refused:
        return Ending.REFUSED
    if lived_s > 0.0:
        return Ending.LOST
    return Ending.TURNED_AWAY if event.reached else Ending.UNREACHABLE
