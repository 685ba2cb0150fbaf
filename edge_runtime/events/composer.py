"""Builds event records: times, subject, class, deadline, evidence, and the size cap."""

from collections.abc import Mapping, Sequence

import numpy as np

from edge_runtime.clock import NS_PER_MS, NS_PER_S, Clock, WallLabel
from edge_runtime.errors import ConfigError
from edge_runtime.events.counters import EventTally
from edge_runtime.events.evidence import EvidenceRing, EvidenceUnavailable
from edge_runtime.events.lifecycle import Revision, Subject
from edge_runtime.events.origin import Origin
from edge_runtime.events.scene import Scene
from edge_runtime.events.sizing import fit, largest_size, one_line
from edge_runtime.events.timeline import Moment
from edge_runtime.geometry import Float64Array, to_pixels
from edge_runtime.protocol import Box, EventRecord, EventTime, EventTooLarge
from edge_runtime.sources.frame import Image


class Composer:
    """Turns revisions into records for one camera.

    Args:
        camera: name of the camera.
        labels: the model's label map.
        names: that events carry in place of labels, by those.
        model_digest, config_digest: `sha256:…`; what saw, and what the rules were.
        max_bytes: cap on one encoded record.
        clock: measures how late an event is and labels its times.
        evidence: where crops go; None keeps none.
        tally: what is counted.

    Attributes:
        model_digest: may be changed between two frames.
    """

    def __init__(
        self,
        camera: str,
        labels: Sequence[str],
        *,
        model_digest: str | None,
        config_digest: str,
        max_bytes: int,
        clock: Clock,
        evidence: EvidenceRing | None,
        tally: EventTally,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self._camera, self._labels, self._names = camera, labels, names or {}
        self.model_digest, self._config = model_digest, config_digest
        self._max_bytes, self._clock = max_bytes, clock
        self._evidence, self._tally = evidence, tally

    def check_cap(self, origin: Origin) -> None:
        """Make sure that every event of an origin fits the cap, free text apart, which is shortened to fit.

        Raises:
            ConfigError: the cap is so small that events would be refused; says how large it must be.
        """
        needed = largest_size(
            origin,
            camera=self._camera,
            model=self.model_digest,
            config=self._config,
            boot_id=self._clock.wall().boot_id,
        )
        if needed > self._max_bytes:
            raise ConfigError(
                f"events.max_bytes: {self._max_bytes} is too small: an event of rule {origin.rule} "
                f"on camera {self._camera} needs up to {needed} bytes"
            )

    def compose(
        self,
        origin: Origin,
        revision: Revision,
        moment: Moment,
        scene: Scene | None = None,
        image: Image | None = None,
    ) -> EventRecord | None:
        """The record of a revision.

        Args:
            origin: whose event it is.
            revision: what is to be written.
            moment: the frame in which it was noticed, or the instant of an outage or of the end.
            scene: of that frame; None where there is none, and then no subject is taken.
            image: of that frame, for a crop.

        Returns:
            None when it would be larger than the cap; it is counted.
        """
        happening, subject = revision.happening, revision.subject
        if scene is not None:
            self._look(origin, revision, scene, image)
        wall = self._clock.wall()
        now_ns = self._clock.monotonic_ns()
        latency_ms = max(0.0, round((now_ns - moment.capture_ns) / NS_PER_MS, 3))
        record = EventRecord(
            id=revision.id,
            revision=revision.number,
            state=revision.state,
            kind=happening.kind,
            rule=origin.rule,
            camera=self._camera,
            epoch=moment.epoch,
            sequence=moment.sequence,
            severity=origin.severity,
            data_class=origin.data_class,
            started=_instant(happening.since, wall, now_ns),
            at=_instant(moment, wall, now_ns),
            deadline_ms=origin.deadline_ms,
            latency_ms=latency_ms,
            late=latency_ms > origin.deadline_ms,
            ttl_s=origin.ttl_s,
            label=subject.label,
            track=happening.track,
            confidence=subject.confidence,
            box=subject.box,
            direction=happening.direction,
            count=happening.count,
            duration_s=None if happening.duration_ns is None else round(happening.duration_ns / NS_PER_S, 3),
            reason=one_line("; ".join(text for text in (happening.reason, subject.note) if text), 256),
            evidence=subject.evidence,
            model=self.model_digest,
            config=self._config,
        )
        try:
            record = fit(record, self._max_bytes)
        except EventTooLarge:
            self._tally.refused_too_large += 1
            return None
        self._tally.add(record)
        return record

    def _look(self, origin: Origin, revision: Revision, scene: Scene, image: Image | None) -> None:
        """Take down who it is about, and on the first revision a crop of it."""
        subject, track = revision.subject, revision.happening.track
        row = None if track is None else scene.row(track)
        if row is not None:
            x1, y1, x2, y2 = (round(value, 2) for value in scene.xyxy[row].tolist())
            subject.box = Box(x1=x1, y1=y1, x2=x2, y2=y2)
            subject.label = one_line(self._name(int(scene.label[row])), 64)
            subject.confidence = round(min(max(float(scene.score[row]), 0.0), 1.0), 4)
        if (
            not origin.evidence
            or revision.number > 1
            or image is None
            or revision.happening.kind not in origin.kinds
        ):
            return
        if row is not None:
            self._keep(subject, image, scene.xyxy[row])
        elif track is None:
            self._keep(subject, image, _zone_box(origin, scene))
        else:
            self._tally.evidence_failed += 1
            subject.note = "no evidence: the track is not in view"

    def _keep(self, subject: Subject, image: Image, xyxy: Float64Array) -> None:
        try:
            if self._evidence is None:
                raise EvidenceUnavailable("no evidence directory is configured")
            subject.evidence = self._evidence.keep(image, xyxy)
        except EvidenceUnavailable as error:
            self._tally.evidence_failed += 1
            subject.note = f"no evidence: {error}"
        else:
            self._tally.evidence_kept += 1

    def _name(self, label: int) -> str:
        known = self._labels[label] if 0 <= label < len(self._labels) else f"label {label}"
        return self._names.get(known, known)


def _zone_box(origin: Origin, scene: Scene) -> Float64Array:
    """The smallest box around the zone, or the frame."""
    if origin.polygon is None:
        return np.array([0, 0, scene.width, scene.height], np.float64)
    points = to_pixels(origin.polygon, origin.units, scene.width, scene.height)
    return np.concatenate([points.min(axis=0), points.max(axis=0)])


def _instant(moment: Moment, wall: WallLabel, now_ns: int) -> EventTime:
    """A moment on three clocks; the wall label is reckoned back from the present one."""
    then = WallLabel(wall.unix_ns - (now_ns - moment.capture_ns), wall.synced, wall.boot_id)
    return EventTime(
        monotonic_ns=moment.capture_ns,
        media_s=round(moment.media_ns / NS_PER_S, 6),
        wall=then.isoformat(),
        synced=wall.synced,
        boot_id=wall.boot_id,
    )
