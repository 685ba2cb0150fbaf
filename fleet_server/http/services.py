"""What the application works with; the composition root puts it together, over the network or in process."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from edge_runtime.clock import NS_PER_MS, Clock
from fleet_server.audit import Audit
from fleet_server.devices import DeviceRegistry, EnrolmentService
from fleet_server.evidence import EvidenceStore
from fleet_server.http.limits import Buckets, Limits
from fleet_server.http.metrics import HttpMetrics
from fleet_server.http.records import ReadyAnswer
from fleet_server.operators.tokens import TokenBook
from fleet_server.releases.desk import ReleaseDesk
from fleet_server.rollouts.service import RolloutService
from fleet_server.storage import Store

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether one part works.

    Attributes:
        ready: None when this process cannot know.
        detail: a sentence without addresses or secrets.
    """

    ready: bool | None
    detail: str


class Cached(Generic[T]):
    """A value that is made at most once in a while, however many ask.

    Args:
        life_ns: for how long it is given again.
    """

    def __init__(self, life_ns: int) -> None:
        self._life_ns = life_ns
        self._lock = threading.Lock()
        self._made: tuple[int, T] | None = None

    def get(self, now_ns: int, make: Callable[[], T]) -> T:
        """The value; only one caller makes it, the others wait for that one."""
        with self._lock:
            if self._made is None or now_ns - self._made[0] >= self._life_ns:
                self._made = (now_ns, make())
            return self._made[1]


@dataclass(frozen=True, slots=True)
class RateBooks:
    """The buckets behind the sign-in; those for addresses stand before it."""

    tokens: Buckets
    failures: Buckets
    enrolment: Buckets
    devices: Buckets

    @classmethod
    def of(cls, limits: Limits) -> "RateBooks":
        """Empty ones with these limits."""
        return cls(
            Buckets(limits.token), Buckets(limits.failures), Buckets(limits.enrolment), Buckets(limits.device)
        )


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that a request may need.

    Attributes:
        ready: the answer of `/readyz`, which anybody may ask for and which writes to the database.
        probes: parts beside the database that `/readyz` asks about, by name.
        closing: asked by live streams: true once the server goes down.
        server_url: where devices reach this API, or None while the port is not known.
        other_metrics: numbers of the server's other processes, in the text format of Prometheus.
        certificates: says when the server's own certificates end, milliseconds since 1970, by name; asked each
            time, because they are made anew while the server runs.
    """

    store: Store
    clock: Clock
    tokens: TokenBook
    audit: Audit
    enrolment: EnrolmentService
    registry: DeviceRegistry
    evidence: EvidenceStore
    releases: ReleaseDesk
    rollouts: RolloutService
    limits: Limits
    buckets: RateBooks
    metrics: HttpMetrics
    ready: Cached[ReadyAnswer]
    probes: dict[str, Callable[[], Readiness]] = field(default_factory=dict)
    closing: Callable[[], bool] = lambda: False
    certificates: Callable[[], dict[str, int]] = dict
    server_url: Callable[[], str | None] = lambda: None
    other_metrics: Callable[[], bytes] = lambda: b""


def now_ms(services: Services) -> int:
    """The wall clock, milliseconds since 1970."""
    return services.clock.wall().unix_ns // NS_PER_MS
