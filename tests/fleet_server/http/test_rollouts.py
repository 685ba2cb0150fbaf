"""What operators ask and do with rollouts over HTTP, on both databases, with the real engine and its signatures."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.protocol.release import Fit
from fleet_server.http.limits import Limits, Rate
from fleet_server.operators import Role
from fleet_server.rollouts.plan_records import OnFail, Pacing
from tests.rigs.databases import DATABASES, migrated_database
from tests.rigs.rollout_desk import RolloutDesk, rollout_desk
from tests.rigs.rollout_fleet import FACTS, names, stage


@pytest.fixture(params=DATABASES)
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RolloutDesk]:
    yield from rollout_desk(tmp_path, migrated_database(request, tmp_path))


@pytest.fixture
def small_desk(tmp_path: Path) -> Iterator[RolloutDesk]:
    """On SQLite, for what has nothing to do with the database."""
    yield from rollout_desk(tmp_path, f"sqlite:///{tmp_path / 'fleet.db'}")


@pytest.fixture(scope="module")
def waiting_desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolloutDesk]:
    """The same for what changes nothing: two devices, and r1 that awaits its approval."""
    folder = tmp_path_factory.mktemp("waiting")
    limit = Rate(1e9, 1_000_000)
    limits = Limits(address=limit, token=limit, failures=limit)
    for desk in rollout_desk(folder, f"sqlite:///{folder / 'fleet.db'}", limits):
        desk.fleet.publish(1)
        desk.fleet.enrol(*names(2))
        assert desk.anna.post("/v1/rollouts", json=desk.body(1)).json()["id"] == "r1"
        yield desk


def ways(desk: RolloutDesk, device: str, **parameters: Any) -> list[Any]:
    answer = desk.vera.get(f"/v1/devices/{device}/rollouts", params=parameters)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["ways"])


def steps(way: Any) -> list[tuple[str, str]]:
    return [(step["step"], step["standing"]) for step in way["steps"]]


def test_a_plan_says_who_gets_it_when_and_who_does_not(desk: RolloutDesk) -> None:
    first = desk.fleet.publish(1)
    desk.fleet.publish(2, fit=Fit(architectures=("aarch64",)))
    desk.fleet.enrol(*names(20), labels={"site": "berlin"})
    desk.fleet.enrol("north-1", labels={"site": "north"})
    desk.fleet.enrol(
        "old-1", labels={"site": "berlin"}, facts=FACTS.model_copy(update={"architecture": "armv7l"})
    )
    desk.fleet.enrol("new-1", labels={"site": "berlin"}, runs=("f" * 64, 3))
    desk.fleet.enrol("mute-1", labels={"site": "berlin"}, seen=False)
    desk.fleet.enrol("up-1", labels={"site": "berlin"}, runs=(first, 1))
    body = desk.body(2, stage(2000), stage(), labels={"site": "berlin"})
    report = desk.vera.post("/v1/rollouts/plan", json=body).json()
    assert (report["selected"], report["eligible"]) == (24, 21)
    assert report["excluded"] == {"incompatible": 1, "newer-runs": 1, "never-seen": 1}
    assert report["incompatible"] == {"architecture": 1}
    assert report["bytes"] == 21 * 1_000_000
    page = desk.vera.post("/v1/rollouts/plan/devices", json=body, params={"limit": 10}).json()
    devices = page["devices"]
    while page["next"] is not None:
        more = {"limit": 10, "after": page["next"]}
        page = desk.vera.post("/v1/rollouts/plan/devices", json=body, params=more).json()
        devices += page["devices"]
    assert [one["device"] for one in devices] == sorted([*names(20), "old-1", "new-1", "mute-1", "up-1"])
    by_name = {one["device"]: one for one in devices}
    assert by_name["old-1"]["why"].startswith("the release is for aarch64, the device has armv7l: ")
    assert by_name["mute-1"]["exclusion"] == "never-seen"
    stages = [sum(one["stage"] == number for one in devices) for number in (1, 2)]
    assert stages == [one["devices"] for one in report["stages"]]
    assert desk.vera.get("/v1/rollouts").json()["rollouts"] == [], "a plan writes nothing"
    made = desk.anna.post("/v1/rollouts", json=body).json()
    answer = desk.vera.get(f"/v1/rollouts/{made['id']}/devices", params={"limit": 1000}).json()
    planned = {one["device"]: one["stage"] for one in devices if one["stage"] is not None}
    assert {one["device"]: one["stage"] for one in answer["devices"]} == planned, (
        "what was planned is what is made"
    )


def test_a_good_rollout_from_its_plan_to_its_end(small_desk: RolloutDesk) -> None:
    desk = small_desk
    sha256 = desk.fleet.publish(1)
    desk.fleet.enrol(*names(8))
    made = desk.anna.post("/v1/rollouts", json=desk.body(1, stage(5000), stage())).json()
    rollout = made["id"]
    assert (made["state"], made["needs"], made["author"]) == ("awaiting-approval", "start", "anna")
    early = desk.anna.post(f"/v1/rollouts/{rollout}/start")
    assert (early.status_code, early.json()["code"]) == (409, "needs_approval")
    (way,) = ways(desk, "dev-1")
    assert steps(way) == [("chosen", "met"), ("rollout", "stops")]
    assert way["steps"][1]["change"] == f"another person agrees: fleet rollout approve {rollout}"
    agreed = desk.ben.post(f"/v1/rollouts/{rollout}/approve", json={"note": "seen the numbers"}).json()
    assert [(one["by"], one["purpose"], one["note"]) for one in agreed["approvals"]] == [
        ("ben", "start", "seen the numbers")
    ]
    assert desk.anna.post(f"/v1/rollouts/{rollout}/start").json()["state"] == "running"
    done = desk.until(rollout, "completed")
    assert done["counts"] == {"healthy": 8}
    assert [one["verdict"]["verdict"] for one in done["stages_view"]] == ["pass", "pass"]
    (way,) = ways(desk, "dev-1")
    assert way["has_it"]
    assert steps(way) == [("chosen", "met"), ("asked", "met"), ("answer", "met")]
    (asked,) = desk.vera.get("/v1/devices/dev-1/updates").json()["assignments"]
    assert (asked["rollout"], asked["state"], asked["left"], asked["sha256"]) == (
        rollout,
        "healthy",
        "updated",
        sha256,
    )
    acts = [entry["action"] for entry in desk.anna.get("/v1/audit").json()["entries"]]
    assert acts[::-1][:3] == ["rollout.create", "rollout.ready", "rollout.running"]
    actors = {entry["action"]: entry["actor"] for entry in desk.anna.get("/v1/audit").json()["entries"]}
    assert (actors["rollout.create"], actors["rollout.ready"]) == ("anna", "ben")


def test_a_bad_rollout_is_halted_by_itself_and_sent_back_by_two_people(desk: RolloutDesk) -> None:
    before = desk.fleet.publish(1)
    desk.fleet.publish(2, rollback_to=(before,))
    desk.fleet.enrol(*names(6), runs=(before, 1))
    desk.fleet.enrol(*names(4, "bad"), runs=(before, 1), fate="reverted")
    rollout = desk.started(2, stage(rules={"min_devices": 10}))
    halted = desk.until(rollout, "halted")
    assert (halted["reason_code"], halted["codes"]) == ("stage-failed", {"probation-nonfinite": 4})
    (way,) = ways(desk, "bad-0")
    assert not way["has_it"]
    assert way["steps"][-1] == {
        "step": "answer",
        "standing": "stops",
        "text": "tried, and went back to what ran before (probation-nonfinite)",
        "change": "a release with other content: this one will not run there",
    }
    refused = desk.anna.post(f"/v1/rollouts/{rollout}/rollback")
    assert refused.status_code in (403, 409)
    assert desk.ben.post(f"/v1/rollouts/{rollout}/approve", json={}).status_code == 200
    assert desk.anna.post(f"/v1/rollouts/{rollout}/rollback").json()["state"] == "rolling-back"
    ended = desk.until(rollout, "rolled-back")
    assert ended["rollback"] == {"healthy": 6}
    assert ended["left"] == {}
    assert {device.running.sha256 for device in desk.fleet.devices.values()} == {before}
    (way,) = ways(desk, "dev-0")
    assert way["steps"][-1]["text"].startswith("it is back to what it ran before, and well")
    history = desk.vera.get("/v1/devices/dev-0/updates").json()["assignments"]
    assert [(one["action"], one["state"]) for one in history] == [
        ("rollback", "healthy"),
        ("install", "healthy"),
    ]


def test_a_pause_ends_by_another_persons_word(small_desk: RolloutDesk) -> None:
    desk = small_desk
    desk.fleet.publish(1)
    desk.fleet.enrol(*names(6))
    desk.fleet.enrol("late-1", online=False)
    rollout = desk.started(1, stage(), pacing=Pacing(max_in_flight=1))
    desk.fleet.round()
    paused = desk.anna.post(f"/v1/rollouts/{rollout}/pause", json={"reason": "a look at the numbers"}).json()
    assert (paused["state"], paused["needs"]) == ("paused", "continue")
    assert "a look at the numbers" in paused["reason"]
    held = desk.anna.post(f"/v1/rollouts/{rollout}/resume", json={})
    assert held.status_code in (403, 409), held.text
    own = desk.anna.post(f"/v1/rollouts/{rollout}/approve", json={})
    assert own.status_code == 403, "the role operator does not let through"
    assert desk.ben.post(f"/v1/rollouts/{rollout}/approve", json={}).status_code == 200
    assert desk.anna.post(f"/v1/rollouts/{rollout}/resume", json={}).json()["state"] == "running"
    (way,) = ways(desk, "late-1")
    assert steps(way)[-1] == ("there", "waits")
    assert "only a device that is there is asked" in way["steps"][-1]["text"]


def test_whoever_made_it_approves_nothing_of_it_whatever_the_role(small_desk: RolloutDesk) -> None:
    desk = small_desk
    desk.fleet.publish(1)
    desk.fleet.enrol(*names(3))
    cleo = desk.person("cleo")
    rollout = cleo.post("/v1/rollouts", json=desk.body(1)).json()["id"]
    refused = cleo.post(f"/v1/rollouts/{rollout}/approve", json={})
    assert (refused.status_code, refused.json()["code"]) == (403, "needs_another_person")
    assert desk.ben.post(f"/v1/rollouts/{rollout}/approve", json={}).json()["state"] == "ready"


@pytest.mark.parametrize(
    ("method", "path", "body", "least"),
    [
        ("GET", "/v1/rollouts", None, Role.VIEWER),
        ("GET", "/v1/rollouts/r1", None, Role.VIEWER),
        ("GET", "/v1/rollouts/r1/devices", None, Role.VIEWER),
        ("GET", "/v1/devices/dev-0/rollouts", None, Role.VIEWER),
        ("GET", "/v1/devices/dev-0/updates", None, Role.VIEWER),
        ("POST", "/v1/rollouts/plan", "plan", Role.VIEWER),
        ("POST", "/v1/rollouts/plan/devices", "plan", Role.VIEWER),
        ("POST", "/v1/rollouts", "plan", Role.OPERATOR),
        ("POST", "/v1/rollouts/r1/start", None, Role.OPERATOR),
        ("POST", "/v1/rollouts/r1/pause", {"reason": "x"}, Role.OPERATOR),
        ("POST", "/v1/rollouts/r1/resume", {}, Role.OPERATOR),
        ("POST", "/v1/rollouts/r1/halt", {"reason": "x"}, Role.OPERATOR),
        ("POST", "/v1/rollouts/r1/rollback", None, Role.OPERATOR),
        ("POST", "/v1/rollouts/r1/cancel", {"reason": "x"}, Role.OPERATOR),
        ("POST", "/v1/rollouts/r1/approve", {}, Role.APPROVER),
    ],
)
def test_each_act_needs_its_role(
    waiting_desk: RolloutDesk, method: str, path: str, body: Any, least: Role
) -> None:
    desk = waiting_desk
    sent = {**desk.body(1), "labels": {"site": "moon"}} if body == "plan" else body
    assert desk.api.client().request(method, path, json=sent).status_code == 401
    for person, role in (("vera", Role.VIEWER), ("anna", Role.OPERATOR), ("ben", Role.APPROVER)):
        if role.includes(least) and path.endswith(("/approve", "/cancel")):
            continue  # they would be done; other tests do them
        answer = desk.person(person).request(method, path, json=sent)
        denied = answer.status_code == 403 and answer.json()["code"] == "not_permitted"
        assert denied == (not role.includes(least)), (person, answer.text)
        assert answer.status_code < 500


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/v1/rollouts/r9", None, 404, "rollout_unknown"),
        ("GET", "/v1/rollouts/r9/devices", None, 404, "rollout_unknown"),
        ("GET", "/v1/rollouts/seven", None, 422, "invalid"),
        ("GET", "/v1/devices/nobody/rollouts", None, 404, "device_unknown"),
        ("GET", "/v1/devices/nobody/updates", None, 404, "device_unknown"),
        ("GET", "/v1/devices/dev-0/rollouts?rollout=r9", None, 404, "rollout_unknown"),
        ("POST", "/v1/rollouts/r9/start", None, 404, "rollout_unknown"),
        ("POST", "/v1/rollouts/plan", {"counter": 9}, 404, "release_unknown"),
        ("POST", "/v1/rollouts/plan/devices", {"counter": 9}, 404, "release_unknown"),
        ("POST", "/v1/rollouts", {"counter": 9}, 404, "release_unknown"),
        ("POST", "/v1/rollouts", {"labels": {"site": "moon"}}, 422, "nobody_eligible"),
        ("POST", "/v1/rollouts", {"stages": []}, 422, "invalid"),
        ("POST", "/v1/rollouts", {"colour": "red"}, 422, "invalid"),
        ("POST", "/v1/rollouts/r1/pause", {"reason": "x"}, 409, "wrong_state"),
        ("POST", "/v1/rollouts/r1/rollback", None, 409, "wrong_state"),
        ("POST", "/v1/rollouts/r1/resume", {}, 409, "wrong_state"),
        ("POST", "/v1/rollouts/r1/pause", {}, 422, "invalid"),
        ("POST", "/v1/rollouts/r1/halt", {"reason": "\x07"}, 422, "invalid"),
    ],
)
def test_what_is_refused_says_why_and_changes_nothing(
    waiting_desk: RolloutDesk, method: str, path: str, body: Any, status: int, code: str
) -> None:
    desk = waiting_desk
    plan = desk.body(1)
    before = desk.shown("r1")
    is_plan = path.startswith("/v1/rollouts/plan") or path == "/v1/rollouts"
    answer = desk.anna.request(method, path, json={**plan, **body} if is_plan else body)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert desk.shown("r1") == before
    assert len(desk.vera.get("/v1/rollouts").json()["rollouts"]) == 1


def test_an_approval_that_nothing_waits_for_is_refused(small_desk: RolloutDesk) -> None:
    desk = small_desk
    desk.fleet.publish(1)
    desk.fleet.enrol(*names(2))
    rollout = desk.started(1)
    answer = desk.ben.post(f"/v1/rollouts/{rollout}/approve", json={})
    assert (answer.status_code, answer.json()["code"]) == (409, "wrong_state")


def test_a_plan_with_values_for_ten_thousand_devices_is_taken(small_desk: RolloutDesk) -> None:
    desk = small_desk
    body = {
        **desk.body(1),
        "slot": "configuration",
        "device_values": {f"dock-{n}": {"t": n} for n in range(10_000)},
    }
    answer = desk.vera.post("/v1/rollouts/plan", json=body)
    assert (answer.status_code, answer.json()["code"]) == (404, "release_unknown"), (
        "read whole, and then judged"
    )
    body["device_values"] |= {f"dock-{n}": {"t": "x" * 200} for n in range(10_000)}
    assert desk.vera.post("/v1/rollouts/plan", json=body).status_code == 413


def test_rollouts_are_listed_by_state_and_page(small_desk: RolloutDesk) -> None:
    desk = small_desk
    desk.fleet.publish(1)
    desk.fleet.enrol(*names(3))
    made = []
    for number in range(3):
        made.append(desk.anna.post("/v1/rollouts", json=desk.body(1, name=f"try {number}")).json()["id"])
        desk.anna.post(f"/v1/rollouts/{made[-1]}/cancel", json={"reason": "made for its name"})
    made.append(desk.anna.post("/v1/rollouts", json=desk.body(1, name="last")).json()["id"])
    listed = desk.vera.get("/v1/rollouts").json()["rollouts"]
    assert [one["id"] for one in listed] == made[::-1]
    cancelled = desk.vera.get("/v1/rollouts", params={"state": "cancelled"}).json()["rollouts"]
    assert [one["id"] for one in cancelled] == made[2::-1]
    page = desk.vera.get("/v1/rollouts", params={"limit": 2}).json()
    rest = desk.vera.get("/v1/rollouts", params={"limit": 2, "before": page["next"]}).json()
    assert [one["id"] for one in page["rollouts"] + rest["rollouts"]] == made[::-1]


def test_devices_of_a_rollout_are_listed_by_state_stage_and_page(desk: RolloutDesk) -> None:
    desk.fleet.publish(1)
    desk.fleet.enrol(*names(7))
    desk.fleet.enrol("full-1", fate="refused")
    rollout = desk.started(1, stage(), on_fail=OnFail.PAUSE)
    desk.fleet.rounds(2)
    path = f"/v1/rollouts/{rollout}/devices"
    (refused,) = desk.vera.get(path, params={"state": "refused"}).json()["devices"]
    assert (refused["device"], refused["code"], refused["seq"]) == ("full-1", "no-space", 1)
    page = desk.vera.get(path, params={"limit": 5, "stage": 1}).json()
    rest = desk.vera.get(path, params={"limit": 5, "stage": 1, "after": page["next"]}).json()
    assert [one["device"] for one in page["devices"] + rest["devices"]] == sorted([*names(7), "full-1"])
    assert rest["next"] is None
    assert desk.vera.get(path, params={"stage": 2}).json()["devices"] == []


def test_the_way_of_a_device_that_a_rollout_does_not_name(small_desk: RolloutDesk) -> None:
    desk = small_desk
    desk.fleet.publish(1)
    desk.fleet.enrol(*names(3), labels={"site": "berlin"})
    desk.fleet.enrol("north-1", labels={"site": "north"})
    rollout = desk.started(1, labels={"site": "berlin"})
    assert ways(desk, "north-1") == []
    (way,) = ways(desk, "north-1", rollout=rollout)
    assert steps(way) == [("selected", "stops")]
    assert way["steps"][0]["text"] == "its labels lack site=berlin"
    assert way["steps"][0]["change"] == "fleet device label north-1 site=berlin"
    other = desk.anna.post("/v1/rollouts", json=desk.body(1, labels={"site": "berlin"}))
    assert other.json()["code"] == "nobody_eligible"
    assert "3 busy" in other.json()["detail"]


def test_health_and_metrics_know_of_rollouts(desk: RolloutDesk) -> None:
    desk.fleet.publish(1)
    desk.fleet.enrol(*names(4))
    desk.fleet.enrol("gone-1", fate="vanishes")
    rollout = desk.started(1, stage(rules={"min_devices": 4, "max_bad_share": 0.5}))
    desk.fleet.rounds(2)
    desk.fleet.pass_s(4 * 3600)
    desk.fleet.rounds(2)
    desk.anna.post(f"/v1/rollouts/{rollout}/pause", json={"reason": "one is gone"})
    health = desk.vera.get("/v1/health").json()
    (one,) = health["rollouts"]
    assert (one["id"], one["state"], one["stuck"], one["waits_for_people"]) == (rollout, "paused", 1, True)
    said = [warning["text"] for warning in health["warnings"] if warning["subject"] == rollout]
    assert any(text.startswith("paused since ") and "one is gone" in text for text in said), said
    assert f"1 of its devices are stuck; fleet rollout status {rollout} --devices stuck" in said
    numbers = desk.vera.get("/metrics").text
    for line in (
        'fleet_rollouts{state="paused"} 1.0',
        'fleet_rollouts{state="running"} 0.0',
        f'fleet_rollout_devices{{rollout="{rollout}",state="healthy"}} 4.0',
        f'fleet_rollout_stuck_devices{{rollout="{rollout}"}} 1.0',
        'fleet_rollout_stages{state="inconclusive"} 0.0',
    ):
        assert line in numbers.splitlines(), line
    assert f'fleet_rollout_since_seconds{{reason="asked",rollout="{rollout}",state="paused"}}' in numbers
