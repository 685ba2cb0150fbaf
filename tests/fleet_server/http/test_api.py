"""What operators ask and do over HTTP, on both databases, with rows that the real ingest wrote."""

import json
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from edge_runtime.protocol.delivery import Ledger
from edge_runtime.protocol.operation import CommandKind
from fleet_server.authority import CertificateFiles, ensure_server_certificate
from fleet_server.http.services import Readiness
from fleet_server.operators import Role, review
from fleet_server.storage.device_tables import CommandRow
from tests.rigs.deliveries import WALL_MS, DeviceRig
from tests.rigs.fleet_api import FleetApi


def ids(answer: httpx.Response) -> list[int]:
    assert answer.status_code == 200, answer.text
    return [event["id"] for event in answer.json()["events"]]


def test_events_are_listed_filtered_and_paged(api: FleetApi) -> None:
    dock, gate = DeviceRig("dock-1"), DeviceRig("gate-1")
    api.deliver(dock, *({"camera": f"cam-{n % 2}", "severity": "info"} for n in range(5)))
    api.clock.advance(60)
    api.deliver(gate, {"severity": "critical", "rule": "fall"}, {"severity": "notice"})
    viewer = api.client(Role.VIEWER)
    everything = ids(viewer.get("/v1/events"))
    assert everything == sorted(everything, reverse=True)
    assert len(everything) == 7
    assert len(ids(viewer.get("/v1/events", params={"device": "dock-1"}))) == 5
    assert len(ids(viewer.get("/v1/events", params={"camera": "cam-1"}))) == 2
    assert len(ids(viewer.get("/v1/events", params={"severity_at_least": "notice"}))) == 2
    assert len(ids(viewer.get("/v1/events", params={"rule": "fall", "kind": "zone.entered"}))) == 1
    assert len(ids(viewer.get("/v1/events", params={"since": WALL_MS + 60_000}))) == 2
    assert len(ids(viewer.get("/v1/events", params={"until": WALL_MS + 60_000}))) == 5
    page = viewer.get("/v1/events", params={"limit": 3}).json()
    rest = viewer.get("/v1/events", params={"limit": 100, "before_id": page["next"]}).json()
    assert [event["id"] for event in page["events"] + rest["events"]] == everything
    assert rest["next"] is None
    assert ids(viewer.get("/v1/events", params={"after_id": everything[-2]})) == everything[:-2][::-1]


def test_one_event_is_shown_by_key_and_by_number_with_its_decision(api: FleetApi) -> None:
    api.deliver(DeviceRig("dock-1"), {"label": "person"})
    viewer = api.client(Role.VIEWER)
    listed = viewer.get("/v1/events").json()["events"][0]
    by_key = viewer.get(f"/v1/events/{listed['key']}").json()
    assert by_key["event"]["label"] == "person"
    assert by_key["decision"]["reasons"] == ["permitted"]
    assert by_key["evidence"] is None
    assert viewer.get(f"/v1/events/{listed['id']}").json() == by_key
    assert viewer.get(f"/v1/events/{'0' * 32}").status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "least"),
    [
        ("GET", "/v1/events", None, Role.VIEWER),
        ("GET", "/v1/devices", None, Role.VIEWER),
        ("GET", "/v1/held", None, Role.VIEWER),
        ("GET", "/v1/dead-letters", None, Role.VIEWER),
        ("GET", "/v1/health", None, Role.VIEWER),
        ("GET", "/metrics", None, Role.VIEWER),
        ("GET", "/v1/audit", None, Role.OPERATOR),
        ("POST", "/v1/audit/verify", {}, Role.OPERATOR),
        ("POST", "/v1/invitations", {}, Role.OPERATOR),
        ("PATCH", "/v1/devices/dock-1/labels", {"labels": {"a": "b"}}, Role.OPERATOR),
        ("POST", "/v1/devices/dock-1/report", {}, Role.OPERATOR),
        ("POST", "/v1/devices/dock-1/revoke", {}, Role.OPERATOR),
        ("POST", "/v1/devices/dock-1/approve", {}, Role.APPROVER),
        ("POST", f"/v1/held/dock-1/{'a' * 32}/release", {"reason": "seen"}, Role.APPROVER),
        ("POST", f"/v1/held/dock-1/{'a' * 32}/drop", {"reason": "seen"}, Role.APPROVER),
        ("POST", "/v1/devices/dock-1/remove", {}, Role.ADMIN),
        ("GET", "/v1/tokens", None, Role.ADMIN),
        ("POST", "/v1/tokens", {"name": "x", "role": "viewer"}, Role.ADMIN),
        ("DELETE", "/v1/tokens/nobody", None, Role.ADMIN),
    ],
)
def test_each_act_needs_its_role_and_nobody_is_refused(
    small_api: FleetApi, method: str, path: str, body: Any, least: Role
) -> None:
    small_api.add_device("dock-1")
    assert small_api.client().request(method, path, json=body).status_code == 401
    for role in Role:
        status = small_api.client(role).request(method, path, json=body).status_code
        assert (status == 403) == (not role.includes(least)), (role, status)
        assert status < 500


def test_every_operation_of_the_openapi_asks_who_it_is_but_for_these(small_api: FleetApi) -> None:
    open_to_all = {
        "isAlive",
        "isReady",
        "showAuthority",
        "enrol",
        "challenge",
        "renew",
        "headEvidence",
        "patchEvidence",
        "fetchUpdateMetadata",  # these four, as evidence, ask for a device's certificate
        "fetchUpdateTarget",
        "fetchUpdateBlob",
        "headUpdateBlob",
    }
    document = small_api.application.app.openapi()
    found = {
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
        if "security" not in operation
    }
    assert found == open_to_all


def test_a_held_item_is_released_once_with_a_name_and_a_reason(api: FleetApi) -> None:
    api.add_device("dock-1")
    (key,) = api.hold("dock-1")
    approver = api.client(Role.APPROVER)
    listed = approver.get("/v1/held").json()["held"]
    assert [(entry["device"], entry["key"], entry["command"]) for entry in listed] == [("dock-1", key, None)]
    whole = {"reason": "checked by anna", "evidence": "crop"}
    assert approver.post(f"/v1/held/dock-1/{key}/release", json=whole).status_code == 422  # never from afar
    wish = {"reason": "checked by anna", "evidence": "redacted"}
    asked = approver.post(f"/v1/held/dock-1/{key}/release", json=wish)
    assert asked.status_code == 202
    command = asked.json()
    assert (command["state"], command["kind"]) == ("queued", "release_held")
    assert approver.get(f"/v1/commands/{command['id']}").json() == command
    again = approver.post(f"/v1/held/dock-1/{key}/drop", json={"reason": "second thoughts"})
    assert (again.status_code, again.json()["code"]) == (409, "already_asked")
    audit = approver.get("/v1/audit").json()["entries"]
    assert audit[0]["action"] == "command.release_held"
    assert audit[0]["detail"] == {"command": command["id"], "item": key, **wish}
    api.clock.advance(3600)
    assert approver.get("/v1/held").json()["held"] == []


def test_what_was_asked_about_an_item_is_known_however_much_was_asked_since(api: FleetApi) -> None:
    api.add_device("dock-1")
    asked, unasked = api.hold("dock-1", 2)
    with api.write() as session:
        first = review.send(session, api.clock, "dock-1", CommandKind.DROP_HELD, "anna", item=asked, note="x")
        session.execute(update(CommandRow).values(state="failed"))
        for number in range(2100):
            if number % 100 == 0:
                api.clock.advance(0.1)
                session.execute(update(CommandRow).where(CommandRow.id != first.id).values(state="done"))
            review.send(
                session, api.clock, "dock-1", CommandKind.DROP_HELD, "anna", item=f"{number:032x}", note="x"
            )
    listed = api.client(Role.VIEWER).get("/v1/held").json()["held"]
    assert {entry["key"]: entry["command"] for entry in listed} == {asked: "failed", unasked: None}


def test_what_nobody_holds_cannot_be_released_nor_of_a_device_that_is_out(api: FleetApi) -> None:
    api.add_device("dock-1")
    api.add_device("gone-1", "revoked")
    (key,) = api.hold("gone-1")
    approver = api.client(Role.APPROVER)
    assert approver.post(f"/v1/held/dock-1/{key}/release", json={"reason": "x"}).status_code == 404
    out = approver.post(f"/v1/held/gone-1/{key}/release", json={"reason": "x"})
    assert (out.status_code, out.json()["code"]) == (409, "not_active")
    unknown = approver.post("/v1/devices/nobody/report")
    assert unknown.status_code == 404


def test_the_life_of_a_device(api: FleetApi) -> None:
    api.add_device("dock-1")
    admin = api.client(Role.ADMIN)
    labelled = admin.patch("/v1/devices/dock-1/labels", json={"labels": {"site": "north", "row": "3"}}).json()
    assert labelled["labels"] == {"row": "3", "site": "north"}
    labelled = admin.patch("/v1/devices/dock-1/labels", json={"labels": {"row": None}}).json()
    assert labelled["labels"] == {"site": "north"}
    assert admin.post("/v1/devices/dock-1/revoke", json={"reason": "stolen"}).json()["state"] == "revoked"
    detail = admin.get("/v1/devices/dock-1").json()
    assert [certificate["state"] for certificate in detail["certificates"]] == ["revoked"]
    assert admin.post("/v1/devices/dock-1/approve", json={}).json()["code"] == "nothing_pending"
    admin.post("/v1/devices/dock-1/remove", json={})
    assert admin.get("/v1/devices").json()["devices"] == []
    assert len(admin.get("/v1/devices", params={"state": "removed"}).json()["devices"]) == 1
    acts = [entry["action"] for entry in admin.get("/v1/audit").json()["entries"]]
    assert acts[::-1] == ["device.label", "device.label", "device.revoke", "device.remove"]
    assert admin.post("/v1/audit/verify").json()["whole"] is True


def test_an_invitation_is_shown_once_and_its_secret_is_nowhere(api: FleetApi) -> None:
    operator = api.client(Role.OPERATOR)
    made = operator.post("/v1/invitations", json={"labels": {"site": "north"}, "expires_s": 600})
    assert made.status_code == 201
    assert made.json()["token"].startswith("efr1.")
    batch = operator.post("/v1/invitations", json={"serials": [f"SN-{n:05}" for n in range(10_000)]})
    assert batch.json()["uses"] == 10_000
    assert operator.post("/v1/invitations", json={"device": "fleet-x"}).status_code == 409


def test_tokens_are_made_used_and_revoked(api: FleetApi) -> None:
    admin = api.client(Role.ADMIN)
    made = admin.post("/v1/tokens", json={"name": "anna", "role": "operator", "expires_s": 3600})
    assert made.status_code == 201
    anna = api.client(token=made.json()["token"])
    assert anna.get("/v1/tokens/self").json()["name"] == "anna"
    assert admin.post("/v1/tokens", json={"name": "anna", "role": "viewer"}).status_code == 409
    assert made.json()["token"] not in json.dumps(admin.get("/v1/tokens").json())
    assert admin.delete("/v1/tokens/anna").json()["state"] == "revoked"
    assert anna.get("/v1/events").status_code == 401


def test_alive_and_ready_are_two_things(api: FleetApi) -> None:
    nobody = api.client()
    assert nobody.get("/healthz").status_code == 200
    assert nobody.get("/readyz").json()["ready"] is True
    api.parts["broker"] = Readiness(ready=False, detail="ended by signal 9")
    api.clock.advance(3)
    answer = nobody.get("/readyz")
    assert answer.status_code == 503
    assert {part["name"]: part["ready"] for part in answer.json()["parts"]} == {
        "database": True,
        "broker": False,
        "ingest": True,
    }
    assert nobody.get("/healthz").status_code == 200


def test_the_balance_of_both_sides(api: FleetApi) -> None:
    api.add_device("dock-1")
    dock = DeviceRig("dock-1")
    api.deliver(dock, *({} for _ in range(4)))
    api.take(dock.sync(5, Ledger(accepted=6, queued=1, delivered=4, expired=1)))
    viewer = api.client(Role.VIEWER)
    health = viewer.get("/v1/health").json()
    assert health["unexplained"] == 0
    (epoch,) = health["balance"]
    assert (epoch["settled"]["delivered"], epoch["ledger"]["accepted"], epoch["waiting"]) == (4, 6, 2)
    api.take(dock.sync(5, Ledger(accepted=9, queued=1, delivered=7, expired=1)))
    health = viewer.get("/v1/health").json()
    assert health["unexplained"] == 3
    assert any("unexplained" in warning["text"] for warning in health["warnings"])
    text = viewer.get("/metrics").text
    assert "fleet_unexplained_events 3.0" in text
    assert 'fleet_settled_events{fate="delivered"} 4.0' in text


def test_certificates_that_end_soon_are_named(api: FleetApi) -> None:
    api.add_device("dock-1")
    api.clock.advance(29 * 86_400)
    warnings = api.client(Role.VIEWER).get("/v1/health").json()["warnings"]
    assert [warning["subject"] for warning in warnings] == ["dock-1"]
    api.clock.advance(330 * 86_400)
    warnings = api.client(Role.VIEWER).get("/v1/health").json()["warnings"]
    assert {warning["subject"] for warning in warnings} == {
        "certificate server",
        "certificate ingest",
        "dock-1",
    }
    paths = api.application.settings.paths
    files = CertificateFiles(paths.server_key, paths.server_certificate)
    assert ensure_server_certificate(api.application.authority, files, ["localhost"])
    warnings = api.client(Role.VIEWER).get("/v1/health").json()["warnings"]
    assert {warning["subject"] for warning in warnings} == {"certificate ingest", "dock-1"}


def test_refused_messages_are_listed_with_the_reason(api: FleetApi) -> None:
    api.take(("fleet/v1/dock-1/up/ev/2", b"\x00nonsense"))
    found = api.client(Role.VIEWER).get("/v1/dead-letters").json()["dead_letters"]
    assert [(letter["device"], letter["code"]) for letter in found] == [("dock-1", "malformed")]
