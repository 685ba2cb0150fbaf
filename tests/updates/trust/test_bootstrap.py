"""The bootstrap root: what is taken for one, and what takes whose place."""

import json
from pathlib import Path

import pytest
from tuf.api.metadata import Metadata, Root

from edge_runtime.protocol.metadata_limits import MAX_ROOT_BYTES
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.trust.bootstrap import check_root, read_root, write_root
from fleet_server.releases.repository import fingerprint
from tests.rigs.signed_repository import DAY, SignedRepository, now
from tests.rigs.small_disk import fill_up, small_disk
from tests.rigs.trusting_device import TrustingDevice, refusal


def test_a_root_says_what_it_is(fleet: SignedRepository, tmp_path: Path) -> None:
    data = fleet.files["1.root.json"]
    found = write_root(tmp_path / "updates", data)
    assert found is not None
    assert (found.version, found.threshold, found.keys) == (1, 2, 3)
    assert found.fingerprint == fingerprint(Metadata[Root].from_bytes(data)), "as `fleet keys` shows it"
    assert found.expires_ms == round(fleet.root.expires.timestamp() * 1000)
    assert read_root(tmp_path / "updates") == data
    assert (tmp_path / "updates" / "root.json").stat().st_mode & 0o777 == 0o600


def test_an_expired_root_still_leads_on(tmp_path: Path, fleet: SignedRepository) -> None:
    fleet.root.expires = now() - DAY
    fleet.publish("root")
    assert write_root(tmp_path, fleet.files["2.root.json"]) is not None


def cut(data: bytes) -> bytes:
    return data[:-20]


def unsigned(data: bytes) -> bytes:
    return json.dumps({**json.loads(data), "signatures": []}).encode()


def signed_once(data: bytes) -> bytes:
    found = json.loads(data)
    return json.dumps({**found, "signatures": found["signatures"][:1]}).encode()


def without_a_role(data: bytes) -> bytes:
    found = json.loads(data)
    del found["signed"]["roles"]["timestamp"]
    return json.dumps(found).encode()


def padded(data: bytes) -> bytes:
    return data + b" " * MAX_ROOT_BYTES


@pytest.mark.parametrize("spoil", [cut, unsigned, signed_once, without_a_role, padded])
def test_what_is_no_root_is_not_written(spoil: object, fleet: SignedRepository, tmp_path: Path) -> None:
    assert callable(spoil)
    data = spoil(fleet.files["1.root.json"])
    assert refusal(lambda: check_root(data)) is UpdateCode.METADATA_INVALID
    assert refusal(lambda: write_root(tmp_path, data, replace=True)) is UpdateCode.METADATA_INVALID
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["timestamp.json", "1.targets.json", "2.models.json"])
def test_other_metadata_is_no_root(name: str, fleet: SignedRepository, tmp_path: Path) -> None:
    assert refusal(lambda: write_root(tmp_path, fleet.files[name])) is UpdateCode.METADATA_INVALID


def test_another_root_takes_its_place_by_a_persons_word_alone(
    fleet: SignedRepository, tmp_path: Path
) -> None:
    mine, theirs = fleet.files["1.root.json"], SignedRepository().files["1.root.json"]
    write_root(tmp_path, mine)
    assert write_root(tmp_path, mine) is not None
    assert write_root(tmp_path, theirs) is None
    assert read_root(tmp_path) == mine
    assert write_root(tmp_path, theirs, replace=True) is not None
    assert read_root(tmp_path) == theirs


def test_a_root_that_was_reached_is_trusted_already(fleet: SignedRepository, device: TrustingDevice) -> None:
    """Enrolling again hands out the fleet's newest root, and the device began with its first."""
    fleet.publish("root")
    newest = fleet.files["2.root.json"]
    assert write_root(device.folder, newest) is None
    device.trust.refresh()
    found = write_root(device.folder, newest)
    assert found is not None
    assert found.version == 2
    assert read_root(device.folder) == fleet.files["1.root.json"]


def test_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(UpdateRefused, match="update trust FILE") as refused:
        read_root(tmp_path)
    assert refused.value.code is UpdateCode.METADATA_UNAVAILABLE
    (tmp_path / "root.json").mkdir()
    assert refusal(lambda: read_root(tmp_path)) is UpdateCode.METADATA_UNAVAILABLE


def test_there_is_no_room(tmp_path: Path, fleet: SignedRepository) -> None:
    with small_disk(tmp_path / "disk", 1) as disk:
        fill_up(disk)
        code = refusal(lambda: write_root(disk / "updates", fleet.files["1.root.json"]))
        assert code is UpdateCode.NO_SPACE
