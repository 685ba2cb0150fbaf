"""A fleet on paper around the real rollout engine: its database is real, and so are signatures and reports.

A device here reads what the director wrote for it, verifies the signature as devices do, and answers with the
reports that its fate has for it. It keeps its terminal reports until it is told that they were taken.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from securesystemslib.signer import CryptoSigner

from edge_runtime.clock import NS_PER_MS, WallLabel
from edge_runtime.protocol.envelope import read_envelope, record_in
from edge_runtime.protocol.release import (
    Bundle,
    BundleFile,
    Fit,
    Opening,
    ProbationTerms,
    ReleaseKind,
    ReleaseTerms,
    target_path,
)
from edge_runtime.protocol.update import (
    ASSIGNMENT_TYPE,
    Assignment,
    DeviceFacts,
    LeftAs,
    Running,
    StateReport,
    UpdateAction,
    UpdateCode,
    UpdateState,
)
from fleet_server.audit import Audit
from fleet_server.director.desired import DesiredDraft
from fleet_server.director.issuing import Director
from fleet_server.director.signing import Signing
from fleet_server.rollouts.approving import Approvals
from fleet_server.rollouts.plan_records import RolloutPlan, StagePlan, StageRules
from fleet_server.rollouts.records import RolloutView
from fleet_server.rollouts.reports import take_many
from fleet_server.rollouts.service import RolloutService
from fleet_server.storage import Store
from fleet_server.storage.writing import run, run_many

BEGIN_MS = 1_800_000_000_000
"""A Friday: 2027-01-15 08:00 UTC."""

SLOT = "people"
FACTS = DeviceFacts(hardware=("generic",), architecture="aarch64", runtime="1.0.0", memory_mb=8000)
ALWAYS = (Opening(basis_points=10_000),)
SALT = "00112233445566778899aabbccddeeff"


class PaperClock:
    """Stands still until it is moved."""

    def __init__(self, now_ms: int = BEGIN_MS) -> None:
        self.now_ms = now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * NS_PER_MS

    boottime_ns = monotonic_ns

    def wall(self) -> WallLabel:
        return WallLabel(self.now_ms * NS_PER_MS, synced=True, boot_id="paper")


@dataclass
class PaperDevice:
    """What one device remembers.

    Attributes:
        fate: `healthy`, `reverted`, `refused`, `silent` (never answers), `vanishes` (gone on probation).
    """

    name: str
    fate: str = "healthy"
    running: Running = field(default_factory=Running)
    facts: DeviceFacts = FACTS
    report_no: int = 0
    last_seq: int = 0
    boot: int = 1
    seen: list[Assignment] = field(default_factory=list)
    unsettled: dict[int, StateReport] = field(default_factory=dict)

    def report(self, now_ms: int, **said: Any) -> StateReport:
        self.report_no += 1
        values = {"seq": 0, "slot": SLOT, "running": self.running, "facts": self.facts, **said}
        return StateReport(
            device=self.name,
            boot_id=f"boot-{self.boot}",
            report_no=self.report_no,
            at_ms=now_ms,
            clock_synced=True,
            **values,
        )

    def answers(self, assignment: Assignment, now_ms: int) -> list[StateReport]:
        """What it says to an assignment, from its acceptance to its end."""
        if assignment.seq <= self.last_seq or self.fate == "silent":
            return []
        self.last_seq = assignment.seq
        self.seen.append(assignment)
        about = {"seq": assignment.seq, "slot": assignment.slot, "rollout": assignment.rollout}
        if assignment.action is UpdateAction.HOLD:
            end = self.report(
                now_ms, **about, state=UpdateState.HEALTHY, terminal=True, left=LeftAs.UNCHANGED
            )
            return self._end(end)
        if self.fate == "refused" and assignment.action is UpdateAction.INSTALL:
            why = {"state": UpdateState.REFUSED, "code": UpdateCode.NO_SPACE, "left": LeftAs.UNCHANGED}
            return self._end(self.report(now_ms, **about, terminal=True, **why))
        said = [
            self.report(now_ms, **about, state=UpdateState.ACCEPTED),
            self.report(now_ms, **about, state=UpdateState.PROBATION),
        ]
        if self.fate == "vanishes":
            return said
        if self.fate == "reverted" and assignment.action is UpdateAction.INSTALL:
            why = {
                "state": UpdateState.REVERTED,
                "code": UpdateCode.PROBATION_NONFINITE,
                "left": LeftAs.REVERTED,
            }
            return [*said, *self._end(self.report(now_ms, **about, terminal=True, **why))]
        self.running = Running(
            sha256=assignment.sha256, counter=int((assignment.target or "//0").split("/")[2])
        )
        end = self.report(now_ms, **about, state=UpdateState.HEALTHY, terminal=True, left=LeftAs.UPDATED)
        return [*said, *self._end(end)]

    def _end(self, report: StateReport) -> list[StateReport]:
        self.unsettled[report.seq] = report
        return [report]


class PaperFleet:
    """Devices, the engine between them and their operators, and time.

    Args:
        store: a database with the newest schema.
        approvals: who may agree to what.
    """

    def __init__(
        self, store: Store, *, approvals: Approvals = Approvals.SEPARATE, now_ms: int = BEGIN_MS
    ) -> None:
        self.store, self.clock = store, PaperClock(now_ms)
        if not store.is_sqlite and not self.rows("SELECT 1 FROM rollouts LIMIT 1"):
            with store.engine.begin() as connection:  # a database of another test goes on counting
                run(connection, "ALTER SEQUENCE rollouts_number_seq RESTART")
        self.signer = CryptoSigner.generate_ed25519()
        self.audit = Audit(self.clock)
        self.director = Director(store, lambda _reader: Signing(self.signer, 3, 7))
        self.approvals = approvals
        self.service = self.new_service()
        self.devices: dict[str, PaperDevice] = {}

    def new_service(self) -> RolloutService:
        """As a server that was started again has it."""
        return RolloutService(self.store, self.clock, self.audit, self.director, approvals=self.approvals)

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms

    def pass_s(self, seconds: float) -> None:
        self.clock.now_ms += int(seconds * 1000)

    # --- releases and devices

    def publish(
        self, counter: int, *, name: str = SLOT, kind: ReleaseKind = ReleaseKind.MODEL, **terms: Any
    ) -> str:
        """Put a release where `fleet release publish` puts it; the SHA-256 of its bundle."""
        sha256 = hashlib.sha256(f"{name} {counter}".encode()).hexdigest()
        bundle = Bundle(
            kind=kind, name=name, files=(BundleFile(path="model.onnx", sha256=sha256, bytes=1_000_000),)
        )
        package = "sha256:" + sha256 if kind is ReleaseKind.MODEL else None
        values = {
            "salt": SALT,
            "openings": ALWAYS,
            "fit": Fit(),
            "total_bytes": 1_000_000,
            "package": package,
            "probation": ProbationTerms(seconds=0, max_seconds=60),
        }
        signed = ReleaseTerms(kind=kind, name=name, counter=counter, **{**values, **terms})
        body = bundle.canonical_bytes()
        self.sha = hashlib.sha256(body + str(counter).encode()).hexdigest()
        row = (target_path(kind, name, counter), kind.value, name, counter, len(body), self.sha, body)
        with self.store.engine.begin() as connection:
            text = signed.canonical_bytes().decode()
            run(connection, _RELEASE, *row, text, "[]", self.now_ms, "people")
        return self.sha

    def revoke(self, counter: int, name: str = SLOT) -> None:
        with self.store.engine.begin() as connection:
            statement = "UPDATE releases SET revoked_ms = ?, reason = 'bad' WHERE name = ? AND counter = ?"
            run(connection, statement, self.now_ms, name, counter)

    def enrol(
        self,
        *names: str,
        labels: Mapping[str, str] | None = None,
        facts: DeviceFacts = FACTS,
        runs: tuple[str, int] | None = None,
        online: bool = True,
        fate: str = "healthy",
        seen: bool = True,
    ) -> None:
        """Make devices that have connected once."""
        rows = [(name, "active", json.dumps(dict(labels or {})), self.now_ms, self.now_ms) for name in names]
        keys = [
            (
                name,
                hashlib.sha256(f"s {name}".encode()).hexdigest()[:40],
                key_of(name),
                self.now_ms,
                self.now_ms,
            )
            for name in names
        ]
        running = Running() if runs is None else Running(sha256=runs[0], counter=runs[1])
        fresh = {name: PaperDevice(name, fate, running, facts) for name in names}
        self.devices.update(fresh)
        with self.store.engine.begin() as connection:
            run_many(connection, _DEVICE, rows)
            run_many(connection, _CERTIFICATE, keys)
            run_many(
                connection,
                _PRESENCE,
                [(name, "online" if online else "offline", self.now_ms) for name in names],
            )
            if seen:
                said = [(name, device.report(self.now_ms)) for name, device in fresh.items()]
                take_many(connection, said, self.now_ms)

    def presence(self, state: str, *names: str) -> None:
        with self.store.engine.begin() as connection:
            run_many(
                connection,
                "UPDATE presence SET state = ? WHERE device = ?",
                [(state, name) for name in names],
            )

    def set_state(self, state: str, *names: str) -> None:
        with self.store.engine.begin() as connection:
            run_many(
                connection, "UPDATE devices SET state = ? WHERE id = ?", [(state, name) for name in names]
            )

    def label(self, name: str, **labels: str) -> None:
        with self.store.engine.begin() as connection:
            run(connection, "UPDATE devices SET labels = ? WHERE id = ?", json.dumps(labels), name)

    def say(self, name: str, **said: Any) -> StateReport:
        """One report of one device."""
        report = self.devices[name].report(self.now_ms, **said)
        self.take([(name, report)])
        return report

    def take(self, reports: Iterable[tuple[str, StateReport]]) -> None:
        with self.store.engine.begin() as connection:
            take_many(connection, list(reports), self.now_ms)

    # --- rollouts

    def plan(self, counter: int, *stages: StagePlan, **said: Any) -> RolloutPlan:
        values = {"name": "test", "slot": SLOT, "release": SLOT, **said}
        return RolloutPlan(counter=counter, stages=stages or (stage(),), **values)

    def run(self, counter: int, *stages: StagePlan, **said: Any) -> str:
        """A rollout that was made, approved and started; its id."""
        made = self.service.create("anna", self.plan(counter, *stages, **said)).id
        self.service.approve("ben", made)
        return self.service.start("anna", made).id

    def round(self, seconds: float = 1.0) -> None:
        """Time passes, the engine steps, devices see what is new for them and answer."""
        self.pass_s(seconds)
        self.service.step(self.now_ms)
        self.deliver()

    def rounds(self, number: int, seconds: float = 1.0) -> None:
        for _ in range(number):
            self.round(seconds)

    def deliver(self) -> list[Assignment]:
        """What the broker would bring: new desired states to devices that are there, their reports back."""
        with self.store.engine.begin() as connection:
            rows = list(run(connection, _QUEUED))
            done = [(self.now_ms, row.device) for row in rows]
            if done:
                run_many(
                    connection, "UPDATE desired_states SET state = 'sent', sent_ms = ? WHERE device = ?", done
                )
        assignments: list[Assignment] = []
        reports: list[tuple[str, StateReport]] = []
        for row in rows:
            device = self.devices[row.device]
            desired = DesiredDraft.decode(bytes(row.body))
            assert desired.device == device.name
            for seq, number in desired.settled:
                if seq in device.unsettled and device.unsettled[seq].report_no == number:
                    del device.unsettled[seq]
            for assignment in sorted(map(self.opened, desired.assignments), key=lambda one: one.seq):
                assert (assignment.device, assignment.key_sha256) == (device.name, key_of(device.name))
                assignments.append(assignment)
                reports += [(device.name, report) for report in device.answers(assignment, self.now_ms)]
        if reports:
            self.take(reports)
        return assignments

    def opened(self, sealed: bytes) -> Assignment:
        envelope = read_envelope(sealed, ASSIGNMENT_TYPE)
        envelope.verify([self.signer.public_key], 1)
        return record_in(envelope, Assignment)

    def show(self, rollout: str) -> RolloutView:
        return self.service.status(rollout)

    def states(self, rollout: str) -> dict[str, str]:
        """Each device's state."""
        with self.store.read() as session:
            found = run(
                session.connection(),
                "SELECT device, state FROM rollout_members WHERE rollout = ?",
                int(rollout[1:]),
            )
            return {row.device: row.state for row in found}

    def rows(self, statement: str, *values: Any) -> list[Any]:
        with self.store.read() as session:
            return list(run(session.connection(), statement, *values))

    def actions(self) -> list[str]:
        """What the audit says was done, in order."""
        return [row.action for row in self.rows("SELECT action FROM audit ORDER BY id")]


def stage(basis_points: int = 10_000, **said: Any) -> StagePlan:
    """A stage whose rules are in `rules`; it soaks for ten seconds."""
    rules = {"soak_s": 10, "min_share": 1.0, "max_wait_s": 1000, **said.pop("rules", {})}
    return StagePlan(basis_points=basis_points, rules=StageRules(**rules), **said)


def names(count: int, prefix: str = "dev") -> Sequence[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def key_of(name: str) -> str:
    return hashlib.sha256(f"key of {name}".encode()).hexdigest()


_RELEASE = (
    "INSERT INTO releases (target, kind, name, counter, length, sha256, bundle, terms, evaluation, published_ms, "
    "published_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_DEVICE = "INSERT INTO devices (id, state, labels, created_ms, changed_ms) VALUES (?, ?, ?, ?, ?)"
_CERTIFICATE = (
    "INSERT INTO certificates (device, serial, key_sha256, created_ms, changed_ms, state, csr, not_after_ms) "
    "VALUES (?, ?, ?, ?, ?, 'active', '', 9000000000000)"
)
_PRESENCE = (
    "INSERT INTO presence (device, state, since_ms, session, reason, boot_id, runtime, stale_ignored) "
    "VALUES (?, ?, ?, 1, '', '', '1.0.0', 0)"
)
_QUEUED = (
    "SELECT d.device, d.body FROM desired_states d JOIN presence p ON p.device = d.device "
    "WHERE d.state = 'queued' AND p.state = 'online'"
)
