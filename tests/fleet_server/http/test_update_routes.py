"""What devices fetch of releases, and what operators bring: over the real socket with real certificates."""

import hashlib
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from edge_runtime.clock import NS_PER_MS, SystemClock
from fleet_server.operators import Role
from fleet_server.releases import catalog
from fleet_server.releases.ceremony import rotate
from fleet_server.releases.packing import content_of
from tests.rigs.deliveries import FakeClock
from tests.rigs.fleet_api import FleetApi, fleet_api, served
from tests.rigs.release_parties import SignedFleet, configuration
from tests.rigs.update_devices import DeviceClient, device_client


@pytest.fixture
def api(tmp_path: Path) -> Iterator[FleetApi]:
    """An application whose clock begins now."""
    clock = FakeClock()
    clock.wall_ms = SystemClock().wall().unix_ns // NS_PER_MS
    yield from fleet_api(tmp_path, f"sqlite:///{tmp_path / 'fleet.db'}", clock=clock)


@pytest.fixture
def fleet(api: FleetApi, tmp_path: Path) -> SignedFleet:
    """A team of three, and one configuration of 300 kB published."""
    services = api.application.services
    fleet = SignedFleet.begin(tmp_path, services.store, clock=services.clock, desk=services.releases)
    folder = configuration(tmp_path / "c")
    (folder / "labels.json").write_text('["' + "x" * 300_000 + '"]')
    fleet.publish(folder, name="base")
    return fleet


@pytest.fixture
def device(api: FleetApi, fleet: SignedFleet, tmp_path: Path) -> Iterator[DeviceClient]:
    """A device with its certificate, connected."""
    with served(api) as url, device_client(api, url, tmp_path, "dock-1") as client:
        yield client


def labels(fleet: SignedFleet) -> tuple[str, bytes]:
    file = next(file for file in published(fleet).bundle.files if file.path == "labels.json")
    return file.sha256, fleet.desk.blobs.whole(file.sha256).read_bytes()


def published(fleet: SignedFleet) -> catalog.PublishedRelease:
    with fleet.store.read() as session:
        return catalog.releases(session, limit=1)[0]


def test_metadata_is_what_was_signed_byte_for_byte(device: DeviceClient, fleet: SignedFleet) -> None:
    file = fleet.file()
    for name, text in (
        ("1.root.json", file.roots[0]),
        ("1.targets.json", file.targets),
        ("1.models.json", file.models),
        ("2.configurations.json", file.configurations),
    ):
        answer = device.get(f"/v1/updates/metadata/{name}")
        assert (answer.status_code, answer.text) == (200, text)
    stamp = device.get("/v1/updates/metadata/timestamp.json").json()["signed"]
    snapshot = device.get(f"/v1/updates/metadata/{stamp['meta']['snapshot.json']['version']}.snapshot.json")
    assert hashlib.sha256(snapshot.content).hexdigest() == stamp["meta"]["snapshot.json"]["hashes"]["sha256"]


@pytest.mark.parametrize(
    "name",
    ["2.root.json", "0.root.json", "01.root.json", "root.json", "9.director.json", "1.timestamp.json", "x"],
)
def test_what_is_not_there_is_404(device: DeviceClient, name: str) -> None:
    assert device.get(f"/v1/updates/metadata/{name}").status_code == 404


def test_a_bundle_is_found_by_its_digest_and_its_path(device: DeviceClient, fleet: SignedFleet) -> None:
    found = published(fleet)
    answer = device.get(f"/v1/updates/targets/configurations/base/1/{found.sha256}.bundle.json")
    assert answer.content == found.bundle.canonical_bytes()
    for path in (
        f"configurations/base/2/{found.sha256}.bundle.json",
        f"configurations/base/1/{'0' * 64}.bundle.json",
        "configurations/base/1/bundle.json",
        f"../configurations/base/1/{found.sha256}.bundle.json",
    ):
        assert device.get(f"/v1/updates/targets/{path}").status_code == 404


def test_a_file_comes_whole_or_in_part(device: DeviceClient, fleet: SignedFleet) -> None:
    sha256, data = labels(fleet)
    path = f"/v1/updates/blobs/{sha256}"
    whole = device.get(path)
    assert (whole.status_code, whole.content) == (200, data)
    assert whole.headers["etag"] == f'"{sha256}"'
    assert whole.headers["accept-ranges"] == "bytes"
    head = device.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(data))
    for asked, part, shown in (
        ("bytes=0-99", data[:100], f"bytes 0-99/{len(data)}"),
        ("bytes=1000-", data[1000:], f"bytes 1000-{len(data) - 1}/{len(data)}"),
        ("bytes=-10", data[-10:], f"bytes {len(data) - 10}-{len(data) - 1}/{len(data)}"),
        (f"bytes={len(data) - 1}-", data[-1:], f"bytes {len(data) - 1}-{len(data) - 1}/{len(data)}"),
    ):
        answer = device.get(path, headers={"Range": asked})
        assert (answer.status_code, answer.headers["content-range"]) == (206, shown)
        assert answer.content == part
    beyond = device.get(path, headers={"Range": f"bytes={len(data)}-"})
    assert beyond.status_code == 416
    assert beyond.headers["content-range"].endswith(f"*/{len(data)}")
    other = device.get(path, headers={"Range": "bytes=0-9", "If-Range": '"another"'})
    assert (other.status_code, len(other.content)) == (200, len(data))
    same = device.get(path, headers={"Range": "bytes=0-9", "If-Range": f'"{sha256}"'})
    assert same.status_code == 206


def test_only_files_of_releases_that_stand_are_served(device: DeviceClient, fleet: SignedFleet) -> None:
    sha256, _ = labels(fleet)
    assert device.get(f"/v1/updates/blobs/{'0' * 64}").status_code == 404
    assert device.get("/v1/updates/blobs/..%2F..%2Fsettings.toml").status_code == 404
    assert device.get("/v1/updates/blobs/XYZ").status_code == 422
    fleet.revoke(published(fleet).target)
    assert device.get(f"/v1/updates/blobs/{sha256}").status_code == 404


def test_a_file_that_only_awaits_its_release_is_not_served(
    device: DeviceClient, fleet: SignedFleet, tmp_path: Path
) -> None:
    folder = configuration(tmp_path / "d", "a: 1\n")
    proposal = fleet.signed(fleet.propose(folder, name="base"))
    content = content_of(folder, "base")
    fleet.upload(proposal, content)
    assert device.get(f"/v1/updates/blobs/{content.bundle.files[0].sha256}").status_code == 404


def test_only_a_device_with_its_certificate_is_served(
    api: FleetApi, fleet: SignedFleet, tmp_path: Path
) -> None:
    sha256, _ = labels(fleet)
    with served(api) as url:
        context = ssl.create_default_context(cafile=str(api.directory / "authority/ca.pem"))
        with httpx.Client(base_url=url, verify=context, trust_env=False) as nobody:
            for path in (
                "metadata/timestamp.json",
                f"blobs/{sha256}",
                "targets/configurations/base/1/x.bundle.json",
            ):
                assert nobody.get(f"/v1/updates/{path}").status_code == 401
        with device_client(api, url, tmp_path, "dock-2") as client:
            assert client.get("/v1/updates/metadata/timestamp.json").status_code == 200
            api.application.services.registry.revoke("admin", "dock-2")
            assert client.get("/v1/updates/metadata/timestamp.json").status_code == 403


def test_roles_of_operators(api: FleetApi, fleet: SignedFleet, tmp_path: Path) -> None:
    viewer, operator, admin = (api.client(role) for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN))
    assert api.client().get("/v1/releases").status_code == 401
    assert len(viewer.get("/v1/releases").json()["releases"]) == 1
    assert viewer.get("/v1/releases/configuration/base/1").json()["bundle"]["name"] == "base"
    assert viewer.get("/v1/releases/model/base/1").status_code == 404
    assert viewer.get("/v1/releases/configuration/base/latest").status_code == 422, "R000-31"
    file = viewer.get("/v1/releases/repository")
    assert file.json() == fleet.file().model_dump(mode="json")
    assert "PRIVATE" not in file.text
    folder = configuration(tmp_path / "d", "a: 1\n")
    body = fleet.signed(fleet.propose(folder, name="base")).submission().model_dump(mode="json")
    for path in ("announce", "publish"):
        assert viewer.post(f"/v1/releases/{path}", json=body).status_code == 403
    (awaited,) = operator.post("/v1/releases/announce", json=body).json()["awaited"]
    data, blob = (folder / "overlay.yaml").read_bytes(), f"/v1/releases/blobs/{awaited['sha256']}"
    headers = {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
    assert viewer.patch(blob, content=data, headers=headers).status_code == 403
    assert (
        operator.patch(blob, content=data, headers={**headers, "Content-Type": "text/plain"}).status_code
        == 415
    )
    assert operator.post("/v1/releases/publish", json=body).json()["code"] == "files_missing"
    answer = operator.patch(blob, content=data, headers=headers)
    assert (answer.status_code, answer.headers["upload-offset"]) == (204, str(len(data)))
    assert operator.head(blob).headers["upload-length"] == str(len(data))
    assert operator.post("/v1/releases/publish", json=body).json()["state"] == "published"
    assert operator.post("/v1/releases/publish", json=body).json()["state"] == "already"
    assert operator.patch(f"/v1/releases/blobs/{'0' * 64}", content=b"", headers=headers).status_code == 403
    for path, asked in (
        ("online-keys", {"roles": ["director"]}),
        ("recover", {"snapshot": 9, "timestamp": 9}),
    ):
        assert operator.post(f"/v1/releases/{path}", json=asked).status_code == 403
        assert admin.post(f"/v1/releases/{path}", json=asked).status_code == 200
    assert admin.post("/v1/releases/online-keys", json={"roles": ["root"]}).status_code == 422
    keys = fleet.file()
    proposal = rotate(keys, fleet.trusted(), now_ms=fleet.now_ms, online=True)
    body = fleet.people.sign(proposal, fleet.trusted(), "ada", "ben").submission().model_dump(mode="json")
    assert operator.post("/v1/releases/publish", json=body).status_code == 403
    assert admin.post("/v1/releases/publish", json=body).json()["versions"]["root"] == 2


def test_health_and_metrics_speak_of_what_runs_out(api: FleetApi, fleet: SignedFleet) -> None:
    viewer = api.client(Role.VIEWER)
    assert not [w for w in viewer.get("/v1/health").json()["warnings"] if w["subject"].startswith("releases")]
    text = viewer.get("/metrics").text
    assert 'fleet_releases{state="published"} 1.0' in text
    assert 'fleet_release_metadata_ends_seconds{role="root"}' in text
    api.clock.wall_ms += 65 * 86_400_000
    subjects = {w["subject"] for w in viewer.get("/v1/health").json()["warnings"]}
    assert {"releases models", "releases configurations", "releases timestamp"} <= subjects
    fleet.desk.freshness.keep()
    subjects = {w["subject"] for w in viewer.get("/v1/health").json()["warnings"]}
    assert "releases timestamp" not in subjects


def test_a_proposal_that_is_none_is_refused_in_a_sentence(api: FleetApi, fleet: SignedFleet) -> None:
    operator = api.client(Role.OPERATOR)
    for documents, status in (
        ({}, 422),
        ({"snapshot": "{}"}, 422),
        ({"models": "{}"}, 409),
        ({"models": "[" * 100_000}, 409),
        ({"models": fleet.file().targets}, 409),
        ({"models": fleet.file().roots[0]}, 409),
    ):
        for path in ("announce", "publish"):
            answer = operator.post(
                f"/v1/releases/{path}", json={"kind": "release", "documents": documents, "bundle": "{}"}
            )
            assert answer.status_code == status, (documents, answer.text)
            assert answer.json()["detail"]
