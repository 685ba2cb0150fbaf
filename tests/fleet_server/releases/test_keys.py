"""A person's keys: private halves under a passphrase, in a directory of their own."""

import stat
from pathlib import Path

import pytest

from edge_runtime.errors import ConfigError
from fleet_server.paths import ServerPaths
from fleet_server.releases.key_directory import KeyDirectory
from fleet_server.releases.online_keys import OnlineKeys
from fleet_server.releases.people import bare_key, read_person
from fleet_server.releases.problems import ReleaseRefused
from fleet_server.releases.roles import Preset
from fleet_server.releases.sealed_key import SealedKey, open_key, seal_key
from tests.rigs.release_parties import PASSPHRASE

COST = 10


def made(tmp_path: Path, preset: Preset = Preset.TEAM) -> KeyDirectory:
    return KeyDirectory.create(tmp_path / "ada", "ada", preset.keys(), PASSPHRASE, cost=COST)


@pytest.mark.parametrize("preset", list(Preset))
def test_each_preset_makes_its_keys_and_no_private_half_lies_open(tmp_path: Path, preset: Preset) -> None:
    keys = made(tmp_path, preset)
    assert [key.duties for key in keys.person.keys] == list(preset.keys())
    assert stat.S_IMODE(keys.directory.stat().st_mode) == 0o700
    assert len(list(keys.directory.glob("*.key"))) == len(preset.keys())
    for signer in keys.signers(PASSPHRASE, [key.keyid for key in keys.person.keys]):
        private = signer._private_key.private_bytes_raw()  # type: ignore[union-attr]
        for path in keys.directory.iterdir():
            assert private not in path.read_bytes()
            assert private.hex() not in path.read_text()
    assert read_person(keys.public_file) == keys.person


def test_another_passphrase_opens_nothing(tmp_path: Path) -> None:
    keys = made(tmp_path)
    with pytest.raises(ReleaseRefused, match="does not open"):
        list(keys.signers("another passphrase", [keys.person.keys[0].keyid]))


def test_a_sealed_key_is_bound_to_its_public_half(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    one, other = (seal_key(Ed25519PrivateKey.generate(), PASSPHRASE, COST) for _ in range(2))
    assert open_key(one, PASSPHRASE).public_key().public_bytes_raw().hex() == one.public
    swapped = SealedKey(**{**one.model_dump(), "public": other.public})
    with pytest.raises(ReleaseRefused):
        open_key(swapped, PASSPHRASE)


def test_a_key_file_of_another_key_is_noticed(tmp_path: Path) -> None:
    keys = made(tmp_path)
    keyid = keys.person.keys[0].keyid
    other = KeyDirectory.create(tmp_path / "eve", "eve", Preset.TEAM.keys(), PASSPHRASE, cost=COST)
    theirs = next(other.directory.glob("*.key"))
    (keys.directory / f"{keyid[:16]}.key").write_bytes(theirs.read_bytes())
    with pytest.raises(ReleaseRefused, match="another key"):
        list(keys.signers(PASSPHRASE, [keyid]))


def test_keys_are_never_written_over_others(tmp_path: Path) -> None:
    made(tmp_path)
    with pytest.raises(ConfigError, match="not empty"):
        made(tmp_path)


@pytest.mark.parametrize(
    ("holder", "passphrase"), [("Ada", PASSPHRASE), ("../x", PASSPHRASE), ("ada", "short")]
)
def test_what_cannot_be_used_leaves_no_directory(tmp_path: Path, holder: str, passphrase: str) -> None:
    with pytest.raises(ConfigError):
        KeyDirectory.create(tmp_path / "keys", holder, Preset.TEAM.keys(), passphrase, cost=COST)
    assert not (tmp_path / "keys").exists()


def test_a_public_file_with_an_id_of_another_key_is_refused(tmp_path: Path) -> None:
    keys = made(tmp_path)
    text = keys.public_file.read_text()
    keys.public_file.write_text(text.replace(keys.person.keys[0].public, "ab" * 32))
    with pytest.raises(ConfigError, match="no public file"):
        read_person(keys.public_file)


def test_the_servers_own_keys_stay_and_a_new_one_is_only_proposed(tmp_path: Path) -> None:
    keys = OnlineKeys(ServerPaths(tmp_path))
    before = keys.public()
    assert OnlineKeys(ServerPaths(tmp_path)).public() == before
    files = list((tmp_path / "releases/keys").iterdir())
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    keys.renew(["director"])
    after = keys.public()
    assert (after.snapshot, after.timestamp) == (before.snapshot, before.timestamp)
    assert after.director != before.director
    old, new = bare_key(before.director).keyid, bare_key(after.director).keyid
    assert keys.director([old]).public_key.keyid == old
    assert keys.director().public_key.keyid == new
    with pytest.raises(ReleaseRefused, match="restore"):
        keys.signer("director", ["0" * 64])
