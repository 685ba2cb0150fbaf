"""Many devices, some of them away and some failing: the outcome to the last device, and work that is set-based."""

from typing import Any

import pytest
import sqlalchemy as sa

from fleet_server.rollouts.plan_records import Pacing
from fleet_server.rollouts.states import MemberState, RolloutState
from fleet_server.storage import Store
from tests.rigs.rollout_fleet import PaperFleet, stage

COUNT = 500


def enrol(fleet: PaperFleet, count: int) -> None:
    """Of a hundred 20 are away, one reverts and one refuses."""
    groups: dict[tuple[bool, str], list[str]] = {}
    for number in range(count):
        fate = {0: "reverted", 1: "refused"}.get(number % 100, "healthy")
        groups.setdefault((number % 5 != 4, fate), []).append(f"dev-{number:05}")
    for (online, fate), members in groups.items():
        fleet.enrol(*members, online=online, fate=fate)


@pytest.mark.parametrize("in_flight", [80])
def test_five_hundred_devices_end_as_their_fates_say(either: PaperFleet, in_flight: int) -> None:
    either.publish(1)
    enrol(either, COUNT)
    rules = {"min_devices": 5, "max_bad_share": 0.3, "min_share": 0.9, "soak_s": 2}
    rollout = either.run(
        1,
        stage(1000, rules=rules),
        stage(rules=rules),
        pacing=Pacing(max_in_flight=in_flight),
        deadlines={"unreachable_s": 20},
    )
    most = 0
    for _ in range(40):
        either.pass_s(5)
        most = max(most, either.service.step(either.now_ms).offered)
        either.deliver()
        if either.show(rollout).state is not RolloutState.RUNNING:
            break
    shown = either.show(rollout)
    assert shown.state is RolloutState.COMPLETED, shown.reason
    assert shown.counts == {
        MemberState.HEALTHY: COUNT * 78 // 100,
        MemberState.REVERTED: COUNT // 100,
        MemberState.REFUSED: COUNT // 100,
        MemberState.UNREACHABLE: COUNT // 5,
    }
    assert most == in_flight
    asked = either.rows("SELECT count(*) AS n, count(DISTINCT device) AS devices FROM assignments")[0]
    assert (asked.n, asked.devices) == (COUNT * 80 // 100, COUNT * 80 // 100)
    assert all(not device.unsettled for device in either.devices.values())


def test_a_look_takes_as_many_statements_for_many_devices_as_for_few(sqlite: Store) -> None:
    fleet = PaperFleet(sqlite)
    fleet.publish(1)
    enrol(fleet, 100)
    fleet.run(1, stage(rules={"soak_s": 9999, "max_bad_share": 1}))
    fleet.rounds(3)
    few = _statements(fleet)
    fleet.publish(2)
    fleet.service.cancel("anna", "r1", "for another")
    for number in range(1, 10):
        fleet.enrol(*(f"more-{number}-{one}" for one in range(100)))
    fleet.run(2, stage(rules={"soak_s": 9999, "max_bad_share": 1}))
    fleet.rounds(3)
    assert _statements(fleet) == few


def _statements(fleet: PaperFleet) -> int:
    """Statements of a step in which everything is looked at and nothing is to be done."""
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        seen.append(statement)

    sa.event.listen(fleet.store.engine, "before_cursor_execute", note)
    report = fleet.service.step(fleet.now_ms)
    sa.event.remove(fleet.store.engine, "before_cursor_execute", note)
    assert (report.acts, report.offered, report.signed) == ((), 0, 0)
    return len(seen)
