"""What the link was like lately: round trip, loss and bandwidth, weighted by age. Pure.

A reading of a network is stale within seconds. Each sample loses half its weight per half-life of the monotonic
clock, and after `KNOWN_HALF_LIVES` without a new sample the answer is "unknown", which whoever asks must take
for bad, not for the last good value.
"""

from edge_runtime.clock import NS_PER_MS, NS_PER_S
from edge_runtime.protocol.operation import LinkSignals

KNOWN_HALF_LIVES = 5
"""Without a sample for so many half-lives a signal is unknown: its weight has fallen to 3 %."""


class DecayingMean:
    """A weighted mean whose samples lose half their weight per half-life.

    Args:
        half_life_s: seconds, above 0.
    """

    def __init__(self, half_life_s: float) -> None:
        self._half_life_ns = half_life_s * NS_PER_S
        self._sum = 0.0
        self._weight = 0.0
        self._at_ns: int | None = None

    def add(self, value: float, now_ns: int, weight: float = 1.0) -> None:
        """Take in a sample; one of no weight changes nothing."""
        if weight <= 0.0:
            return
        kept = 0.0 if self._at_ns is None else 0.5 ** (max(0, now_ns - self._at_ns) / self._half_life_ns)
        self._sum = self._sum * kept + value * weight
        self._weight = self._weight * kept + weight
        self._at_ns = now_ns

    def age_s(self, now_ns: int) -> float | None:
        """Seconds since the newest sample; None before the first."""
        return None if self._at_ns is None else max(0, now_ns - self._at_ns) / NS_PER_S

    def value(self, now_ns: int) -> float | None:
        """The mean, or None where nothing was heard for `KNOWN_HALF_LIVES` half-lives."""
        if self._at_ns is None or self._weight <= 0.0:
            return None
        if now_ns - self._at_ns > KNOWN_HALF_LIVES * self._half_life_ns:
            return None
        return self._sum / self._weight


class LinkMeter:
    """Measures the link from bundles and their receipts.

    Args:
        half_life_s: of every signal, seconds.
    """

    def __init__(self, half_life_s: float) -> None:
        self._round_trip_ms = DecayingMean(half_life_s)
        self._loss = DecayingMean(half_life_s)
        self._bytes_per_s = DecayingMean(half_life_s)
        self._busy_since_ns: int | None = None

    def sent(self, now_ns: int) -> None:
        """A bundle went out: from now on the link is busy, if it was not."""
        if self._busy_since_ns is None:
            self._busy_since_ns = now_ns

    def receipted(self, sent_ns: int, payload_bytes: int, now_ns: int, *, idle: bool) -> None:
        """A bundle was receipted on this attempt.

        Args:
            sent_ns: when this attempt went out.
            payload_bytes: of the bundle.
            now_ns: monotonic time.
            idle: nothing else is in flight, so the link stops being busy.
        """
        self._round_trip_ms.add(max(0, now_ns - sent_ns) / NS_PER_MS, now_ns)
        self._loss.add(0.0, now_ns)
        if self._busy_since_ns is not None:
            busy_s = (now_ns - self._busy_since_ns) / NS_PER_S
            if busy_s > 0.0:
                self._bytes_per_s.add(payload_bytes / busy_s, now_ns, weight=busy_s)
                self._busy_since_ns = now_ns
        if idle:
            self._busy_since_ns = None

    def missed(self, now_ns: int) -> None:
        """A bundle needs another attempt."""
        self._loss.add(1.0, now_ns)

    def idle(self) -> None:
        """Nothing is in flight, for another reason than a receipt: the session ended."""
        self._busy_since_ns = None

    def signals(self, now_ns: int) -> LinkSignals:
        """The signals as they are reported."""
        means = (self._round_trip_ms, self._loss, self._bytes_per_s)
        ages = [age for age in (mean.age_s(now_ns) for mean in means) if age is not None]
        loss = self._loss.value(now_ns)
        return LinkSignals(
            round_trip_ms=self._round_trip_ms.value(now_ns),
            loss=None if loss is None else min(1.0, max(0.0, loss)),
            bytes_per_s=self._bytes_per_s.value(now_ns),
            age_s=min(ages) if ages else None,
        )
