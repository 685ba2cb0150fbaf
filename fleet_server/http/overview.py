"""The state of everything on one page: parts of the server, devices, the balance, and what needs a person."""

from collections import Counter

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from edge_runtime import __version__
from fleet_server.http.metrics import Gauges
from fleet_server.http.records import BalanceAnswer, HealthAnswer, PartAnswer, ReadyAnswer, WarningAnswer
from fleet_server.http.rollout_overview import open_rollouts, rollout_gauges, rollout_warnings
from fleet_server.http.services import Readiness, Services, now_ms
from fleet_server.operators import dead_letters, status
from fleet_server.operators.balance import EpochBalance
from fleet_server.operators.places import devices_in_two_places
from fleet_server.releases import shelf
from fleet_server.releases.freshness import endings
from fleet_server.rollouts.numbers import RolloutNumbers, rollout_numbers
from fleet_server.storage.device_tables import CertificateRow, DeviceRow, HeldRow, PresenceRow
from fleet_server.storage.event_tables import EventRow, EvidenceRow
from fleet_server.storage.operator_tables import GenerationRow

DAY_MS = 86_400_000
AUTHORITY_WARNING_MS = 90 * DAY_MS
CERTIFICATE_WARNING_MS = 14 * DAY_MS
DEVICE_WARNING_MS = 2 * DAY_MS
_MOST_WARNINGS = 100
_PROBE = "readiness"


def ready_answer(services: Services) -> ReadyAnswer:
    """Ask every part."""
    found = {"database": _database(services)} | {name: probe() for name, probe in services.probes.items()}
    parts = [PartAnswer(name=name, ready=part.ready, detail=part.detail) for name, part in found.items()]
    return ReadyAnswer(ready=all(part.ready is not False for part in parts), parts=parts)


def health_answer(services: Services) -> HealthAnswer:
    """One page."""
    ready = services.ready.get(services.clock.monotonic_ns(), lambda: ready_answer(services))
    with services.store.read() as session:
        balance = status.balance(session)
        unexplained = sum(epoch.unexplained for epoch in balance)
        rollouts = rollout_numbers(session)
        newest = session.execute(
            select(EventRow.id, EventRow.received_ms).order_by(EventRow.id.desc()).limit(1)
        )
        last = newest.one_or_none()
        return HealthAnswer(
            version=__version__,
            ready=ready,
            devices=_counts(session, DeviceRow.state),
            online=_online(session),
            held=session.scalar(select(func.count()).select_from(HeldRow)) or 0,
            events=session.scalar(select(func.count()).select_from(EventRow)) or 0,
            newest_ms=last[1] if last is not None else None,
            dead_letters=dead_letters.by_code(session),
            evidence=_counts(session, EvidenceRow.state),
            certificates=services.certificates(),
            metadata=shelf.ends(session),
            rollouts=open_rollouts(rollouts),
            warnings=_warnings(session, services, balance, rollouts)[:_MOST_WARNINGS],
            balance=[BalanceAnswer.model_validate(epoch) for epoch in balance],
            unexplained=unexplained,
        )


def gauges(services: Services) -> Gauges:
    """What a monitoring system is told beside the counts of requests."""
    with services.store.read() as session:
        balance = status.balance(session)
        devices, evidence = _counts(session, DeviceRow.state), _counts(session, EvidenceRow.state)
        letters, online = dead_letters.by_code(session), _online(session)
        held = session.scalar(select(func.count()).select_from(HeldRow)) or 0
        metadata, releases = shelf.ends(session), shelf.counted(session)
        rollouts = rollout_numbers(session)
    settled: Counter[str] = Counter()
    for epoch in balance:
        settled.update(epoch.settled)
    ready = services.ready.get(services.clock.monotonic_ns(), lambda: ready_answer(services))
    return {
        "fleet_devices": ("Devices by state", _labelled("state", devices)),
        "fleet_devices_online": ("Devices with a session", {(): online}),
        "fleet_held_items": ("Items that wait for a person", {(): held}),
        "fleet_settled_events": ("Sequence numbers that are settled, by fate", _labelled("fate", settled)),
        "fleet_waiting_events": ("Accepted by devices, not settled", {(): sum(b.waiting for b in balance)}),
        "fleet_unexplained_events": ("Must be 0", {(): sum(b.unexplained for b in balance)}),
        "fleet_dead_letters": ("Refused messages and events by code", _labelled("code", letters)),
        "fleet_enrolments": (
            "Enrolments and renewals since the start, by what became of them",
            _labelled("outcome", dict(services.enrolment.counts())),
        ),
        "fleet_evidence": ("Pieces of evidence by state", _labelled("state", evidence)),
        "fleet_releases": ("Releases by state", _labelled("state", releases)),
        "fleet_release_metadata_ends_seconds": (
            "When the newest signed metadata of a role runs out, unix time",
            _labelled("role", {role: end // 1000 for role, end in metadata.items()}),
        ),
        **rollout_gauges(rollouts, services.rollouts.stepped_ms),
        "fleet_ready": (
            "Whether a part works",
            _labelled("part", {part.name: int(part.ready) for part in ready.parts if part.ready is not None}),
        ),
        "fleet_certificate_ends_seconds": (
            "When the server's own certificates end, unix time",
            _labelled("certificate", {name: end // 1000 for name, end in services.certificates().items()}),
        ),
    }


def _database(services: Services) -> Readiness:
    try:
        with services.store.write() as session:
            row = session.get(GenerationRow, _PROBE)
            if row is None:
                session.add(GenerationRow(name=_PROBE, value=1))
            else:
                row.value += (
                    1  # a row that is really written: a full disk fails at the commit and nowhere else
                )
    except Exception as error:  # noqa: BLE001 - whatever a database driver raises, the answer is no
        return Readiness(ready=False, detail=f"cannot be written ({type(error).__name__})")
    return Readiness(ready=True, detail="can be written")


def _online(session: Session) -> int:
    query = select(func.count()).select_from(PresenceRow).where(PresenceRow.state == "online")
    return session.scalar(query) or 0


def _counts(session: Session, column: object) -> dict[str, int]:
    query = select(column, func.count()).group_by(column).order_by(column)  # type: ignore[call-overload]
    return {str(name): count for name, count in session.execute(query)}


def _labelled(label: str, counts: dict[str, int] | Counter[str]) -> dict[tuple[tuple[str, str], ...], float]:
    return {((label, name),): float(count) for name, count in counts.items()}


def _warnings(
    session: Session, services: Services, balance: list[EpochBalance], rollouts: RolloutNumbers
) -> list[WarningAnswer]:
    now = now_ms(services)
    found = [
        WarningAnswer(
            subject=epoch.device,
            text=f"{epoch.unexplained} events of epoch {epoch.epoch[-12:]} are unexplained",
        )
        for epoch in balance
        if epoch.unexplained
    ]
    for name, end in services.certificates().items():
        margin = AUTHORITY_WARNING_MS if name == "authority" else CERTIFICATE_WARNING_MS
        if end - now < margin:
            found.append(WarningAnswer(subject=f"certificate {name}", text=_ends(end, now)))
    found += [
        WarningAnswer(subject=f"releases {ending.role}", text=ending.text)
        for ending in endings(shelf.ends(session), now, services.releases.freshness.lives)
    ]
    found += rollout_warnings(rollouts, services.rollouts.stepped_ms, now)
    for device in devices_in_two_places(session, now):
        text = (
            f"connects from two places: fleet device revoke {device}, then enrol each with a token of its own"
        )
        found.append(WarningAnswer(subject=device, text=text))
    soon = session.execute(
        select(CertificateRow.device, func.max(CertificateRow.not_after_ms))
        .join(DeviceRow, DeviceRow.id == CertificateRow.device)
        .where(CertificateRow.state == "active", DeviceRow.state == "active")
        .group_by(CertificateRow.device)
        .having(func.max(CertificateRow.not_after_ms) < now + DEVICE_WARNING_MS)
        .order_by(CertificateRow.device)
        .limit(_MOST_WARNINGS)
    )
    found += [WarningAnswer(subject=device, text=_ends(end or 0, now)) for device, end in soon]
    for device in session.scalars(
        select(DeviceRow.id).where(DeviceRow.state == "pending").order_by(DeviceRow.id).limit(_MOST_WARNINGS)
    ):
        text = "waits to be accepted: fleet device approve"
        found.append(WarningAnswer(subject=device, text=text))
    return found


def _ends(end_ms: int, now: int) -> str:
    if end_ms <= now:
        return "its certificate has ended"
    hours = (end_ms - now) // 3_600_000
    return (
        f"its certificate ends in {hours // 24} days" if hours >= 48 else f"its certificate ends in {hours} h"
    )
