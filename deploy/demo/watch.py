"""What the demo's screen shows: the device by its metrics and its outbox, the server by its API."""

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from deploy.demo.cut import Link
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.outbox import OutboxClient, OutboxError
from fleet_server.cli.client import FleetClient

_ASK_S = 0.5
_PAGE = 200
_FRAMES = re.compile(r'^edge_frames_total\{camera="[^"]*",outcome="evaluated"\} (\S+)$', re.MULTILINE)
_STATE = re.compile(r'^edge_source_state\{camera="[^"]*",state="(\w+)"\} 1\.0$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Arrival:
    """One event revision that the server has committed.

    Attributes:
        id: the server's number.
        media_s: where in the clip it happened; None where the server cannot read the event.
        what: what happened, in words.
        severity: as the rule says.
        delay_s: from happening to commit, both by this machine's clock.
        crop: digest of the redacted crop that was promised with it, if any.
    """

    id: int
    media_s: float | None
    what: str
    severity: str
    delay_s: float
    crop: str | None = None


@dataclass(frozen=True, slots=True)
class Queue:
    """The device's outbox: counts of events and of crops that wait for their upload."""

    queued: int
    delivered: int
    held: int
    crops_due: int
    crops_uploaded: int


@dataclass(slots=True)
class View:
    """Everything on the screen at one moment.

    Attributes:
        total: frames of the whole run, where that is known.
        hint: why everything is held, and where to look at it.
        seconds: since the device's run was started.
        state: of the camera.
        frames: evaluated so far.
        queue: None until the outbox has answered.
        link: the cable as it stands, since `link_s` seconds.
        arrivals: at the server, in the order of their commit.
        bytes_up, bytes_down: through the cable.
    """

    device: str
    server: str
    total: int | None = None
    hint: str = ""
    seconds: float = 0.0
    state: str = "starting"
    frames: int = 0
    queue: Queue | None = None
    link: Link = Link.CONNECTING
    link_s: float = 0.0
    arrivals: list[Arrival] = field(default_factory=list)
    bytes_up: int = 0
    bytes_down: int = 0


class Watcher:
    """Asks all three, each quickly; who does not answer keeps its last numbers.

    Args:
        view: filled in.
        metrics: URL of the device's metrics.
        outbox: the device's.
        client: of the server.
    """

    def __init__(self, view: View, metrics: str, outbox: OutboxClient, client: FleetClient) -> None:
        self._view, self._metrics, self._outbox, self._client = view, metrics, outbox, client
        self._http = httpx.Client(timeout=_ASK_S, trust_env=False)

    def close(self) -> None:
        """Let go of the device's metrics."""
        self._http.close()

    def look(self) -> None:
        """One look at all three."""
        with contextlib.suppress(httpx.HTTPError):
            self._view.frames, self._view.state = read_metrics(self._http.get(self._metrics).text)
        self.look_at_queue()
        self.look_at_server()

    def look_at_queue(self) -> None:
        """The outbox alone."""
        with contextlib.suppress(OutboxError):
            status = self._outbox.status()
            ledger, crops = status.ledger, status.evidence
            self._view.queue = Queue(
                ledger.queued, ledger.delivered, status.held, crops["due"], crops["uploaded"]
            )

    def look_at_server(self) -> None:
        """What came since the last look."""
        arrivals = self._view.arrivals
        with contextlib.suppress(EdgeRuntimeError):
            found = self._client.get(
                "/v1/events",
                after_id=arrivals[-1].id if arrivals else 0,
                limit=_PAGE,
                device=self._view.device,
            )
            arrivals += [arrival(event) for event in found["events"]]


def read_metrics(text: str) -> tuple[int, str]:
    """Evaluated frames and the camera's state, in Prometheus' text format."""
    frames = sum(int(float(number)) for number in _FRAMES.findall(text))
    state = _STATE.search(text)
    return frames, state[1] if state else "starting"


def arrival(stored: Mapping[str, Any]) -> Arrival:
    """A committed event as the API gives it."""
    event = stored["event"] or {}
    return Arrival(
        id=stored["id"],
        media_s=event.get("at", {}).get("media_s"),
        what=_words(stored, event),
        severity=stored["severity"],
        delay_s=max(0, stored["received_ms"] - stored["at_ms"]) / 1000,
        crop=stored["evidence_sha256"],
    )


def _words(stored: Mapping[str, Any], event: Mapping[str, Any]) -> str:
    words = [stored["rule"], event.get("direction") or stored["state"]]
    if stored["state"] == "ended" and not event.get("direction") and event.get("duration_s"):
        words.append(f"after {event['duration_s']:.1f} s")
    if event.get("label"):
        words.append(event["label"])
    return " ".join(words)


def count_lines(path: Path) -> int:
    """Revisions in a file of events; 0 where there is none."""
    try:
        return sum(1 for line in path.read_bytes().splitlines() if line)
    except FileNotFoundError:
        return 0
