"""`fleet init`: whole or not at all."""

import stat
from pathlib import Path

import pytest

from edge_runtime.errors import ConfigError, EdgeRuntimeError
from fleet_server.authority import CertificateAuthority
from fleet_server.init import initialise
from fleet_server.operators.admin import ensure_admin_token
from fleet_server.operators.tokens import TokenBook
from fleet_server.settings import ServerSettings
from fleet_server.storage import open_store
from tests.rigs.deliveries import FakeClock


def test_what_is_made_is_private_and_complete(tmp_path: Path) -> None:
    made = initialise(tmp_path / "data", hosts=["fleet.example", "192.0.2.1"], clock=FakeClock())
    assert made.hosts == ("fleet.example", "192.0.2.1", "localhost", "127.0.0.1")
    settings = ServerSettings.load(made.directory, {})
    paths = settings.paths
    authority = CertificateAuthority.load(paths.ca_key, paths.ca_certificate, FakeClock())
    assert authority.fingerprint == made.fingerprint
    assert stat.S_IMODE(made.directory.stat().st_mode) == 0o700
    for secret in (paths.ca_key, paths.server_key, paths.ingest_key, paths.admin_token, paths.settings):
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600, secret
    store = open_store(settings.database_url)
    with store.read() as session:
        operator = TokenBook(FakeClock()).authenticate(session, paths.admin_token.read_text().strip())
    store.close()
    assert operator is not None
    assert operator.role.value == "admin"
    assert [entry.name for entry in tmp_path.iterdir()] == ["data"]


def test_an_empty_directory_will_do(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    initialise(tmp_path / "data", clock=FakeClock())
    with pytest.raises(ConfigError, match="already"):
        initialise(tmp_path / "data", clock=FakeClock())


@pytest.mark.parametrize(
    "wrong",
    [
        {"hosts": ['bad"host']},
        {"hosts": ["a..b"]},
        {"hosts": ["-x"]},
        {"hosts": [""]},
        {"hosts": ["a" * 300]},
        {"listen": "nonsense"},
        {"listen": "0.0.0.0:99999"},
        {"database": "mysql://user:hunter22@host/name"},
        {"database": "postgresql://user:hunter22@127.0.0.1:1/name"},
        {"database": "x\ny"},
    ],
)
def test_what_cannot_be_used_leaves_nothing(tmp_path: Path, wrong: dict[str, object]) -> None:
    with pytest.raises(EdgeRuntimeError) as refused:
        initialise(tmp_path / "data", clock=FakeClock(), **wrong)  # type: ignore[arg-type]
    assert "hunter22" not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_the_admin_token_comes_back_but_a_revoked_one_does_not(tmp_path: Path) -> None:
    clock = FakeClock()
    made = initialise(tmp_path / "data", clock=clock)
    settings = ServerSettings.load(made.directory, {})
    path = settings.paths.admin_token
    store, book = open_store(settings.database_url), TokenBook(clock)
    first = path.read_text()
    ensure_admin_token(store, path, clock)
    assert path.read_text() == first
    path.unlink()
    ensure_admin_token(store, path, clock)
    second = path.read_text()
    assert second != first
    with store.write() as session:
        book.revoke(session, second.split(".")[1])
    ensure_admin_token(store, path, clock)
    assert path.read_text() not in (first, second)
    with store.read() as session:
        assert book.authenticate(session, second.strip()) is None
        assert book.authenticate(session, path.read_text().strip()) is not None
    store.close()
