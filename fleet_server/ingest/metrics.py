"""Numbers of one ingest process, and how the HTTP API shows those of all: small files in the run folder.

A worker is a process of its own and may run on another machine than the one that asks; those on this machine leave
their numbers in `DIR/run/ingest-<worker>.prom`, written anew every few seconds.
"""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

_STALE_S = 30
_MAX_FILE_BYTES = 1 << 20
_BATCH = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class IngestMetrics:
    """Counts what a worker does; labels are from closed vocabularies, and no device is one.

    Args:
        worker: its number.
    """

    def __init__(self, worker: int) -> None:
        self.registry = CollectorRegistry()
        labels = {"worker": str(worker)}

        def counter(name: str, text: str, *names: str) -> Counter:
            return Counter(name, text, ["worker", *names], registry=self.registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(name, text, ["worker"], registry=self.registry).labels(**labels)

        self._labels = labels
        self._counts = {
            "event": counter("fleet_ingest_events", "Events by what became of them", "outcome"),
            "message": counter("fleet_ingest_messages", "Other messages by kind", "kind"),
            "dead_letter": counter("fleet_ingest_dead_letters", "Refused messages and events", "code"),
            "defect": counter("fleet_ingest_defects", "What a healthy device never sends", "kind"),
        }
        self._batch = Histogram(
            "fleet_ingest_batch_events",
            "Events in one transaction",
            ["worker"],
            buckets=_BATCH,
            registry=self.registry,
        ).labels(**labels)
        self._commit = Histogram(
            "fleet_ingest_commit_seconds",
            "Duration of one transaction",
            ["worker"],
            buckets=_SECONDS,
            registry=self.registry,
        ).labels(**labels)
        self._receipts = counter("fleet_ingest_receipts", "Receipts by whether they were sent", "sent")
        self._failures = counter("fleet_ingest_commit_failures", "Transactions that failed").labels(**labels)
        self.waiting = gauge("fleet_ingest_queue_messages", "Messages that are not committed")
        self.waiting_bytes = gauge("fleet_ingest_queue_bytes", "Bytes of messages that are not committed")
        self.left_out = gauge("fleet_ingest_left_out", "Messages that found the queue full, since the start")
        self.stopped = gauge("fleet_ingest_stopped_devices", "Devices that were told to wait")
        self.store_up = gauge("fleet_ingest_store_up", "Whether the newest transaction went through")
        self.broker_up = gauge("fleet_ingest_broker_up", "Whether there is a session with the broker")
        self.reconnects = gauge("fleet_ingest_broker_losses", "Sessions that were lost, since the start")
        self.clock_doubted = gauge(
            "fleet_ingest_clock_doubted", "Whether the wall clock leapt, so that nothing is forgotten by it"
        )
        self.store_up.set(1)

    def committed(self, counts: Mapping[tuple[str, str], int], events: int, took_s: float) -> None:
        """One transaction went through."""
        for (kind, label), number in counts.items():
            self._counts[kind].labels(self._labels["worker"], label).inc(number)
        if events:
            self._batch.observe(events)
        self._commit.observe(took_s)
        self.store_up.set(1)

    def failed(self) -> None:
        """One transaction did not."""
        self._failures.inc()
        self.store_up.set(0)

    def receipt(self, *, sent: bool) -> None:
        """One receipt was handed to the broker, or could not be."""
        self._receipts.labels(self._labels["worker"], "yes" if sent else "no").inc()

    def text(self) -> bytes:
        """Everything, in the text format of Prometheus."""
        return generate_latest(self.registry)


def write_snapshot(run: Path, worker: int, text: bytes) -> None:
    """Leave a worker's numbers in the run folder; a disk that refuses costs only the numbers."""
    with contextlib.suppress(OSError):
        run.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = run / f".ingest-{worker}.prom.part"
        part.write_bytes(text)
        part.replace(run / f"ingest-{worker}.prom")


def remove_snapshot(run: Path, worker: int) -> None:
    """A worker has ended."""
    with contextlib.suppress(OSError):
        (run / f"ingest-{worker}.prom").unlink()


def collected(run: Path, now_unix_s: float) -> bytes:
    """The numbers of all workers on this machine that are alive, as one text.

    Args:
        run: the run folder.
        now_unix_s: the wall clock, to leave out what a killed worker left behind.
    """
    texts = []
    for path in sorted(run.glob("ingest-*.prom")):
        with contextlib.suppress(OSError), path.open("rb") as file:
            if now_unix_s - os.fstat(file.fileno()).st_mtime <= _STALE_S:
                texts.append(file.read(_MAX_FILE_BYTES).decode("utf-8", "replace"))
    return _merged(texts).encode()


def _merged(texts: list[str]) -> str:
    """Several expositions as one: each metric's HELP and TYPE once, its samples together."""
    blocks: dict[str, list[str]] = {}
    for text in texts:
        name = ""
        for line in text.splitlines():
            if line.startswith("# HELP "):
                name = line.split(" ", 3)[2]
            samples = blocks.setdefault(name, [])
            if not line.startswith("#") or line not in samples:
                samples.append(line)
    return "".join(f"{line}\n" for lines in blocks.values() for line in lines)
