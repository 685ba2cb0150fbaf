"""Releases page by page: none is left out, whatever their number."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from edge_runtime.protocol.release import ReleaseKind
from fleet_server.cli.main import run as fleet
from fleet_server.operators import Role
from fleet_server.storage.release_tables import ReleaseRow
from tests.rigs.fleet_api import FleetApi
from tests.rigs.signed_repository import make_release


def put_many(api: FleetApi, count: int) -> list[str]:
    """Rows of releases, in the order in which they are listed: models first, the newest of a name first."""
    some = make_release(1)
    shared = {
        "length": len(some.bundle),
        "sha256": some.sha256,
        "bundle": some.bundle,
        "evaluation": "[]",
        "published_ms": 1,
        "published_by": "admin",
    }
    rows: list[dict[str, Any]] = []
    for kind, name, share in (
        (ReleaseKind.MODEL, "a", 2),
        (ReleaseKind.MODEL, "b", 4),
        (ReleaseKind.CONFIGURATION, "a", 4),
    ):
        sample = make_release(1, name, kind=kind).terms
        for counter in range(count // share, 0, -1):
            terms = sample.model_copy(update={"counter": counter})
            row = {"target": terms.target, "kind": kind.value, "name": name, "counter": counter}
            rows.append({**shared, **row, "terms": terms.canonical_bytes().decode()})
    with api.application.services.store.write() as session:
        session.execute(insert(ReleaseRow), rows[::-1])
    return [row["target"] for row in rows]


def test_all_of_them_page_by_page(api: FleetApi) -> None:
    made = put_many(api, 40)
    viewer = api.client(Role.VIEWER)
    found: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = viewer.get("/v1/releases", params={"limit": 7, **after}).json()
        found += [one["target"] for one in page["releases"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert found == made
    beyond = viewer.get(
        "/v1/releases", params={"after": "models/a/999/bundle.json", "name": "a", "kind": "model"}
    )
    assert len(beyond.json()["releases"]) == 20, "a place where no release is any more is a place"
    for wrong in (
        "models/a/0/bundle.json",
        "x/a/1/bundle.json",
        "models/a/1",
        "models/a/99999999999999999/bundle.json",
    ):
        assert viewer.get("/v1/releases", params={"after": wrong}).status_code == 422


def test_the_command_reads_every_page(
    small_api: FleetApi, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = put_many(small_api, 1_100)
    monkeypatch.setenv("FLEET_DATA", str(small_api.directory))
    assert fleet(["release", "list", "--json"]) == 0
    listed = capsys.readouterr().out
    assert [target for target in made if target not in listed] == []
    assert listed.count('"target"') == 1_100
