"""Numbers seen from outside: one registry per run, served to Prometheus on request.

A registry of its own, so that two runs in one process (tests, a bench) never add up and no metric of another
library leaks in. Values are pushed by whoever measured them; nothing here reads a clock.
"""

import platform
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Literal

from edge_runtime import __version__
from edge_runtime.errors import ConfigError, EdgeRuntimeError, MissingDependency

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
    from prometheus_client.exposition import generate_latest

    from edge_runtime.telemetry.guard_metrics import AskGuard, GuardCollector
except ImportError as error:  # pragma: no cover - the development install has it
    raise MissingDependency(
        "metrics need prometheus-client: pip install 'edge-fleet-runtime[device]'"
    ) from error

Stage = Literal["decode", "preprocess", "infer", "postprocess", "track", "rules"]

STAGES: tuple[Stage, ...] = ("decode", "preprocess", "infer", "postprocess", "track", "rules")
"""Where the time of one frame goes, in order."""

SOURCE_STATES = ("starting", "running", "stalled", "reconnecting", "ended", "failed")

_STAGE_BUCKETS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02),
    *(0.035, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 10.0),
)
_AGE_BUCKETS = (0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 30.0)


class MetricsAddressInUse(EdgeRuntimeError):
    """The address for the metrics endpoint cannot be listened on."""


class Metrics:
    """Everything that a run counts and measures.

    Args:
        config_digest: identifies the configuration in `edge_build_info`.
    """

    def __init__(self, config_digest: str = "") -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self._stage = Histogram(
            "edge_stage_seconds",
            "Time of one frame in one stage",
            ["stage", "camera"],
            buckets=_STAGE_BUCKETS,
            registry=registry,
        )
        self._age = Histogram(
            "edge_frame_age_seconds",
            "From capture to the end of its rules",
            ["camera"],
            buckets=_AGE_BUCKETS,
            registry=registry,
        )
        self._frames = Counter("edge_frames", "Frames by outcome", ["camera", "outcome"], registry=registry)
        self._drops = Counter("edge_drops", "Frames dropped by cause", ["camera", "cause"], registry=registry)
        self._events = Counter(
            "edge_events",
            "Event revisions that rules emitted",
            ["camera", "rule", "state", "severity"],
            registry=registry,
        )
        self._late = Counter(
            "edge_events_late", "Events after their deadline", ["camera", "rule"], registry=registry
        )
        self._suppressed = Counter(
            "edge_events_suppressed",
            "Happenings held back by a cooldown or a rate cap",
            ["camera", "rule"],
            registry=registry,
        )
        self._nonfinite = Counter(
            "edge_nonfinite", "Candidates with a NaN or infinite value", ["camera"], registry=registry
        )
        self._state = Gauge(
            "edge_source_state",
            "1 for the state that the source is in",
            ["camera", "state"],
            registry=registry,
        )
        self._reconnects = Counter(
            "edge_source_reconnects", "Times a source was reopened", ["camera"], registry=registry
        )
        self._decoded = Counter("edge_source_decoded", "Frames decoded", ["camera"], registry=registry)
        self._frame_share = Gauge(
            "edge_frame_share", "Share of the work on live cameras that heat allows", registry=registry
        )
        self._evidence = Gauge("edge_evidence_bytes", "Size of the evidence ring on disk", registry=registry)
        self._outbox = Gauge(
            "edge_outbox_events",
            "Accepted events by where they are or how they ended; balanced when fates add up to accepted",
            ["fate"],
            registry=registry,
        )
        self._balanced = Gauge(
            "edge_outbox_balanced", "1 while accepted equals queued and all fates together", registry=registry
        )
        self._not_accepted = Gauge(
            "edge_outbox_not_accepted", "Events that the outbox did not take", ["reason"], registry=registry
        )
        self._held = Gauge("edge_gate_held", "Events that wait for a person", registry=registry)
        self._process_restarts = Gauge(
            "edge_process_restarts", "Starts after the first one", ["process"], registry=registry
        )
        self._model = Gauge(
            "edge_model_info", "What runs a model", ["model", "backend", "effective"], registry=registry
        )
        self._degraded = Gauge(
            "edge_model_degraded",
            "1 while a model does not run on the provider that was asked for first",
            ["model"],
            registry=registry,
        )
        self._builds = Counter(
            "edge_engine_builds",
            "TensorRT engines that were built at the start",
            ["model"],
            registry=registry,
        )
        self._build_seconds = Counter(
            "edge_engine_build_seconds", "What building them took", ["model"], registry=registry
        )
        self._quarantined = Counter(
            "edge_engine_quarantined", "Engines that were taken out of use", ["model"], registry=registry
        )
        self._build = Gauge(
            "edge_build_info", "What runs", ["version", "python", "machine", "config"], registry=registry
        )
        self.configured(config_digest)
        self._totals: dict[tuple[str, ...], int] = {}
        self._lock = threading.Lock()

    def configured(self, digest: str) -> None:
        """Another configuration holds."""
        self._build.clear()
        self._build.labels(__version__, platform.python_version(), platform.machine(), digest).set(1)

    def stage(self, stage: Stage, camera: str, seconds: float) -> None:
        """One frame spent `seconds` in a stage."""
        self._stage.labels(stage, camera).observe(seconds)

    def age(self, camera: str, seconds: float) -> None:
        """One frame was `seconds` old when its rules had run."""
        self._age.labels(camera).observe(seconds)

    def frame(self, camera: str, outcome: str) -> None:
        """One frame ended as `outcome`: evaluated, failed, timed_out, dark, frozen."""
        self._frames.labels(camera, outcome).inc()

    def event(self, camera: str, rule: str, state: str, severity: str, *, late: bool = False) -> None:
        """One event revision left the rules."""
        self._events.labels(camera, rule, state, severity).inc()
        if late:
            self._late.labels(camera, rule).inc()

    def suppressed(self, camera: str, rule: str, total: int) -> None:
        """A rule's cooldown or rate cap has held back `total` happenings so far."""
        self._raise_to(self._suppressed.labels(camera, rule), ("suppressed", camera, rule), total)

    def nonfinite(self, camera: str, count: int) -> None:
        """The decoder dropped `count` candidates with a NaN or infinite value."""
        if count:
            self._nonfinite.labels(camera).inc(count)

    def source(
        self, camera: str, state: str, *, reconnects: int, decoded: int, drops: Mapping[str, int]
    ) -> None:
        """What a source says about itself; counts are its totals so far, as `SourceStatus` carries them."""
        for known in SOURCE_STATES:
            self._state.labels(camera, known).set(float(known == state))
        self._raise_to(self._reconnects.labels(camera), ("reconnects", camera), reconnects)
        self._raise_to(self._decoded.labels(camera), ("decoded", camera), decoded)
        for cause, total in drops.items():
            self._raise_to(self._drops.labels(camera, cause), ("drops", camera, cause), total)

    def model(self, name: str, backend: str, effective: str, *, degraded: bool) -> None:
        """A model was loaded: library and version, the provider that runs it, and whether that is a lesser one."""
        self._model.labels(name, backend, effective).set(1)
        self._degraded.labels(name).set(float(degraded))

    def engines(self, model: str, *, built: int, seconds: float, quarantined: int) -> None:
        """What it took to get the engine of a model: builds, their seconds, engines that were taken out of use."""
        self._builds.labels(model).inc(built)
        self._build_seconds.labels(model).inc(seconds)
        self._quarantined.labels(model).inc(quarantined)

    def frame_share(self, share: float) -> None:
        """Heat allows `share` of the work on live cameras."""
        self._frame_share.set(share)

    def evidence(self, size_bytes: int) -> None:
        """The evidence ring holds `size_bytes`."""
        self._evidence.set(size_bytes)

    def outbox(
        self, fates: Mapping[str, int], *, balanced: bool, not_accepted: Mapping[str, int], held: int
    ) -> None:
        """What the outbox counts: `accepted`, `queued` and every fate by name, and what stands beside them."""
        for fate, count in fates.items():
            self._outbox.labels(fate).set(count)
        self._balanced.set(float(balanced))
        for reason, count in not_accepted.items():
            self._not_accepted.labels(reason).set(count)
        self._held.set(held)

    def process(self, name: str, restarts: int) -> None:
        """A process beside perception was started `restarts` times after its first start."""
        self._process_restarts.labels(name).set(restarts)

    def watch_guard(self, ask: AskGuard) -> None:
        """Show the guard's numbers too; it is asked at each scrape."""
        self.registry.register(GuardCollector(ask))

    def expose(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(self.registry)

    def serve(self, host: str, port: int) -> "MetricsServer":
        """Serve `/metrics` until the returned server is closed; port 0 takes a free one.

        Raises:
            MetricsAddressInUse: the address cannot be listened on.
        """
        return MetricsServer(self, host, port)

    def _raise_to(self, counter: Counter, key: tuple[str, ...], total: int) -> None:
        """Count up to a total that another room keeps; a smaller one means that it began anew."""
        with self._lock:
            before = self._totals.get(key, 0)
            counter.inc(total - before if total >= before else total)
            self._totals[key] = total


class MetricsServer:
    """The HTTP endpoint; a context manager whose end frees the port and joins the thread."""

    def __init__(self, metrics: Metrics, host: str, port: int) -> None:
        try:
            self._server, self._thread = start_http_server(port, addr=host, registry=metrics.registry)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise MetricsAddressInUse(
                f"metrics: cannot listen on {host}:{port}: {reason}; choose another with --metrics HOST:PORT"
            ) from error
        self._closed = False

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that are really listened on."""
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def close(self) -> None:
        """Stop serving; calling it twice is allowed."""
        if self._closed:
            return
        self._closed = True
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> "MetricsServer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, `[IPV6]:PORT`, `:PORT` or `PORT` as host and port; the host defaults to 127.0.0.1.

    Raises:
        ConfigError: it is none of these.
    """
    host, _, port = text.strip().rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65_535 or (":" in host and "[" not in host):
        raise ConfigError(f"metrics: {text!r} is not an address; write HOST:PORT, such as 127.0.0.1:9100")
    return host.strip("[]") or "127.0.0.1", int(port)
