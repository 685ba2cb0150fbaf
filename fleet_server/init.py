"""`fleet init`: the data directory of a new server, made beside its place and moved there whole."""

import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from edge_runtime.clock import Clock, SystemClock
from edge_runtime.errors import ConfigError
from fleet_server.authority import (
    CertificateAuthority,
    CertificateFiles,
    ensure_ingest_certificate,
    ensure_server_certificate,
)
from fleet_server.authority.files import write_whole
from fleet_server.operators.admin import ensure_admin_token
from fleet_server.paths import ServerPaths
from fleet_server.settings import LISTEN_VARIABLE, ServerSettings
from fleet_server.storage import open_store, upgrade

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}))*")
ALWAYS = ("localhost", "127.0.0.1")
"""Hosts that every server's certificate has: its own processes and its operator's shell use them."""


@dataclass(frozen=True, slots=True)
class NewServer:
    """What was made.

    Attributes:
        fingerprint: sha256 of the authority's certificate, which enrolment tokens pin.
    """

    directory: Path
    hosts: tuple[str, ...]
    fingerprint: str


def initialise(
    directory: Path,
    *,
    hosts: Sequence[str] = (),
    listen: str | None = None,
    broker_port: int | None = None,
    database: str | None = None,
    clock: Clock | None = None,
) -> NewServer:
    """Make a data directory.

    Args:
        directory: missing or empty.
        hosts: names and addresses by which devices reach the server; the first is told to them.
        listen: HOST:PORT of the HTTP API; None for the default.
        broker_port: of the embedded broker; None for the default.
        database: URL; None for a file in the directory.
        clock: for the certificates; the machine's own when None.

    Raises:
        ConfigError: it is not empty, cannot be made, or a value cannot be used. Nothing is left behind.
        EdgeRuntimeError: the database cannot be used.
    """
    target = directory.expanduser().absolute()
    _require_empty(target)
    text = _settings_text(_all_hosts(hosts), listen, broker_port, database)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        staged = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))  # 0700
    except OSError as error:
        raise ConfigError(f"{target} cannot be made: {error.strerror}") from None
    try:
        fingerprint, known = _fill(staged, text, clock or SystemClock())
        staged.rename(target)  # also onto an empty directory
    except OSError as error:
        raise ConfigError(f"{target} cannot be made: {error.strerror}") from None
    except ConfigError as error:
        raise ConfigError(str(error).replace(str(staged), str(target))) from None
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return NewServer(target, known, fingerprint)


def _fill(staged: Path, text: str, clock: Clock) -> tuple[str, tuple[str, ...]]:
    paths = ServerPaths(staged)
    write_whole(paths.settings, text.encode(), 0o600)
    settings = ServerSettings.load(staged, {})
    for folder in (paths.authority, paths.tls, paths.broker, paths.evidence, paths.run):
        folder.mkdir(mode=0o700, parents=True)
    authority = CertificateAuthority.create(paths.ca_key, paths.ca_certificate, clock)
    server = CertificateFiles(paths.server_key, paths.server_certificate)
    ensure_server_certificate(authority, server, settings.hosts)
    ensure_ingest_certificate(authority, CertificateFiles(paths.ingest_key, paths.ingest_certificate))
    store = open_store(settings.database_url)
    try:
        upgrade(store)
        ensure_admin_token(store, paths.admin_token, clock)
    finally:
        store.close()
    return authority.fingerprint, settings.hosts


def _require_empty(target: Path) -> None:
    try:
        found = next((entry.name for entry in target.iterdir()), None)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"{target}: {error.strerror}") from None
    if found == "settings.toml" or (target / "settings.toml").exists():
        raise ConfigError(
            f"{target} is the data directory of a fleet server already: fleet serve --data {target}"
        )
    if found is not None:
        raise ConfigError(f"{target} is not empty: name a new or an empty directory")


def _all_hosts(hosts: Sequence[str]) -> list[str]:
    for host in hosts:
        if len(host) > 253 or not (_is_address(host) or _NAME.fullmatch(host)):
            raise ConfigError(f"--host {host[:80]!r} is neither a host name nor an address")
    return list(dict.fromkeys([*hosts, *ALWAYS]))


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _settings_text(
    hosts: Sequence[str], listen: str | None, broker_port: int | None, database: str | None
) -> str:
    lines = [
        "# Settings of this fleet server; docs/fleet.md names all of them. Read when it starts.",
        "version = 1",
        "# Names and addresses by which devices and operators reach it; the first is told to devices.",
        f"hosts = [{', '.join(quoted(host) for host in hosts)}]",
    ]
    if database is not None:
        lines.append(f"database = {quoted(database)}")
    if listen is not None:
        host, _, port = listen.rpartition(":")
        if not host or not port.isdecimal():
            raise ConfigError(f"--listen ({LISTEN_VARIABLE}) is HOST:PORT, for example 0.0.0.0:8443")
        lines += ["", "[http]", f"host = {quoted(host.strip('[]'))}", f"port = {int(port)}"]
    if broker_port is not None:
        lines += ["", "[broker]", f"port = {broker_port}"]
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """A basic string of TOML; what needs more escaping than this is no host and no URL."""
    if not text.isprintable() or not text:
        raise ConfigError("a host or URL has characters that do not belong there")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
