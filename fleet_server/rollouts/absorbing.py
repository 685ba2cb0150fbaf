"""What one report changes: a function of the report and of what is known, without the database.

Rows are changed in place, and remember that they were; whoever loaded them writes them back in a few statements.
"""

from dataclasses import dataclass, field

from edge_runtime.protocol.update import Running, StateReport, UpdateAction, UpdateCode
from fleet_server.rollouts.states import WORKING, MemberState

UNKNOWN = "unknown"
MOST_AHEAD = 1_000_000
"""A number that is further ahead than this of what was given is no reason to go on from there."""

_RUNS = (UpdateAction.INSTALL.value, UpdateAction.ROLLBACK.value)
_OPEN_TO_ALL = frozenset({*WORKING, MemberState.UNREACHABLE})
_FIRST = (MemberState.ASSIGNED, MemberState.OFFERED)


@dataclass(slots=True)
class KnownDevice:
    """What is known of a device's updates; `storage.rollout_tables.DeviceUpdateRow` says what the fields mean."""

    device: str
    seq: int = 0
    report_no: int = 0
    boot_id: str = ""
    at_ms: int = 0
    nonce: str | None = None
    facts: str = ""
    time_floor_ms: int = 0
    changed: bool = False


@dataclass(slots=True)
class KnownSlot:
    """What a slot runs; `seq` is of its newest assignment."""

    running: Running
    seq: int = 0
    report_no: int = 0
    changed: bool = False


@dataclass(slots=True)
class KnownAssignment:
    """An assignment as far as a report can change it.

    Attributes:
        settled: its terminal report came with this batch, for the first time or again.
        again: it came again.
        due: it has to be signed anew.
        fresh: the server did not know it; a row is made.
    """

    seq: int
    slot: str
    rollout: int | None
    round: int
    action: str
    sha256: str | None
    live: bool
    state: MemberState
    code: str | None = None
    said: str = ""
    left_as: str | None = None
    report_no: int = 0
    terminal_no: int | None = None
    changed: bool = False
    moved: bool = False
    settled: bool = False
    again: bool = False
    due: bool = False
    fresh: bool = False


@dataclass(slots=True)
class KnownMember:
    """A device of a rollout as far as a report can change it; `moved` where its state did."""

    seq: int | None
    round: int
    state: MemberState
    code: str | None = None
    heard: bool = False
    moved: bool = False


@dataclass(slots=True)
class DeviceBooks:
    """All that is known of one device and that its reports may change.

    Attributes:
        assignments: by number.
        members: by the rollout's number.
        whole: slots whose assignments are here from the newest one on that was called healthy.
    """

    known: KnownDevice
    slots: dict[str, KnownSlot] = field(default_factory=dict)
    assignments: dict[int, KnownAssignment] = field(default_factory=dict)
    members: dict[int, KnownMember] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)


def absorb(books: DeviceBooks, report: StateReport, facts: str) -> None:
    """Take in one report.

    Args:
        books: of the device that signed it.
        report: verified.
        facts: digest of what it says of the device.
    """
    known = books.known
    if known.seq < report.seq <= known.seq + MOST_AHEAD:
        known.seq, known.changed = report.seq, True  # this database is older than the device's memory
    newest = _is_newest(known, report)
    if newest:
        _hear(books, report, facts)
    if report.seq > 0:
        _about_assignment(books, report)
    if newest:
        _compare(books, report)


def _is_newest(known: KnownDevice, report: StateReport) -> bool:
    """Whether a report is news of the device as a whole.

    A device that lost its memory counts its reports from 1 again. It is believed on connecting, in another boot,
    with a later time by its own clock: an old report that somebody kept has none of it.
    """
    if report.report_no > known.report_no:
        return True
    began_anew = report.seq == 0 and report.boot_id != known.boot_id and report.at_ms > known.at_ms
    return began_anew and report.report_no < known.report_no


def _hear(books: DeviceBooks, report: StateReport, facts: str) -> None:
    known = books.known
    known.report_no, known.boot_id, known.at_ms = report.report_no, report.boot_id, report.at_ms
    known.facts, known.changed = facts, True
    known.time_floor_ms = max(known.time_floor_ms, report.time_floor_ms)
    if report.nonce is not None and report.nonce != known.nonce:
        known.nonce = report.nonce
        for assignment in books.assignments.values():
            if assignment.live and assignment.state is MemberState.OFFERED:
                assignment.due = assignment.changed = True
    slot = books.slots.setdefault(report.slot, KnownSlot(report.running))
    slot.running, slot.report_no, slot.changed = report.running, report.report_no, True


def _about_assignment(books: DeviceBooks, report: StateReport) -> None:
    assignment = books.assignments.get(report.seq)
    if assignment is None:
        # of another director, or of a database that is older: the device tells it until it is heard
        if report.terminal:
            books.assignments[report.seq] = _unknown(report)
        return
    if report.terminal and assignment.terminal_no is not None:
        assignment.settled = assignment.again = assignment.changed = True
        assignment.report_no = report.report_no  # the device lets go of the one that it has
        return
    if report.state is None or assignment.terminal_no is not None:
        return
    # its end counts whatever its number: a device that lost its journal counts its reports from 1 again
    if not report.terminal and report.report_no <= assignment.report_no:
        return
    before = assignment.state
    _keep(assignment, report)
    member = None if assignment.rollout is None else books.members.get(assignment.rollout)
    if member is None:
        return
    if assignment.action == UpdateAction.HOLD.value:
        if report.terminal and member.state in _OPEN_TO_ALL:
            _move(member, MemberState.WITHDRAWN, None)
    elif (member.seq, member.round) == (assignment.seq, assignment.round):
        member.heard = True
        if _may_move(member, report, before) and report.state is not None:
            _move(member, MemberState.of(report.state), None if report.code is None else report.code.value)


def _keep(assignment: KnownAssignment, report: StateReport) -> None:
    assert report.state is not None
    state = MemberState.of(report.state)
    assignment.moved = assignment.moved or state is not assignment.state
    assignment.state, assignment.changed, assignment.report_no = state, True, report.report_no
    assignment.code = None if report.code is None else report.code.value
    assignment.said = report.text
    if report.terminal:
        assignment.terminal_no, assignment.live, assignment.settled = report.report_no, False, True
        assignment.left_as = None if report.left is None else report.left.value


def _may_move(member: KnownMember, report: StateReport, before: MemberState) -> bool:
    """Whether the server follows what the device says of itself.

    The end always counts. A device that is stuck has to get further than where it was; one that was taken back or
    decommissioned says nothing but its end.
    """
    if member.state is MemberState.DECOMMISSIONED:
        return False
    if report.terminal or member.state in _OPEN_TO_ALL:
        return True
    if member.state is not MemberState.STUCK or report.state is None:
        return False
    return MemberState.of(report.state) is not before


def _move(member: KnownMember, state: MemberState, code: str | None) -> None:
    member.moved = member.moved or member.state is not state
    member.state, member.code, member.heard = state, code, True


def _compare(books: DeviceBooks, report: StateReport) -> None:
    """What was called healthy has to run: a device that says later that another release runs has gone back.

    A later assignment that is still under way does not change that. It says why where it knows it: a release that
    took perception down again and again is no rollback by a person.
    """
    well = _newest_well(books, report.slot)
    if well is None or report.running.sha256 == well.sha256:
        return
    later = [one for one in books.assignments.values() if one.slot == report.slot and one.seq > well.seq]
    if any(one.action in _RUNS and one.sha256 == report.running.sha256 for one in later):
        return  # that one is in use, on trial
    about_slot = report.seq == 0  # else its code and text are about an assignment
    code = (report.code if about_slot and report.code is not None else UpdateCode.ROLLED_BACK).value
    well.state, well.code, well.said = MemberState.REVERTED, code, report.text if about_slot else ""
    well.changed = well.moved = True
    member = None if well.rollout is None else books.members.get(well.rollout)
    if member is not None and member.seq == well.seq and member.state is MemberState.HEALTHY:
        _move(member, MemberState.REVERTED, code)


def _newest_well(books: DeviceBooks, slot: str) -> KnownAssignment | None:
    """What a slot should run: its newest assignment that was called healthy; None where that is not known here."""
    newest = books.assignments.get(books.slots[slot].seq)
    if newest is not None and _is_well(newest):
        return newest
    if slot not in books.whole:
        return None
    found = (one for one in books.assignments.values() if one.slot == slot and _is_well(one))
    return max(found, key=lambda one: one.seq, default=None)


def _is_well(assignment: KnownAssignment) -> bool:
    return assignment.action in _RUNS and assignment.state is MemberState.HEALTHY


def _unknown(report: StateReport) -> KnownAssignment:
    assert report.state is not None
    return KnownAssignment(
        seq=report.seq,
        slot=report.slot,
        rollout=None,
        round=0,
        action=UNKNOWN,
        sha256=None,
        live=False,
        state=MemberState.of(report.state),
        code=None if report.code is None else report.code.value,
        said=report.text,
        left_as=None if report.left is None else report.left.value,
        report_no=report.report_no,
        terminal_no=report.report_no,
        changed=True,
        moved=True,
        settled=True,
        fresh=True,
    )
