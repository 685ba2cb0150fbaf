"""The server's own keys: snapshot, timestamp and director. They are made here, and only their public halves leave.

Several keys of a role may lie here: the one in force is the one that the signed metadata names. A new one is made,
exported, taken in by a rotation that people sign, and in force once that is published.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from pydantic import BaseModel, ConfigDict, Field
from securesystemslib.signer import CryptoSigner, Signer, SSlibKey

from edge_runtime.durable import write_file
from edge_runtime.errors import ConfigError
from fleet_server.paths import ServerPaths
from fleet_server.releases.people import bare_key
from fleet_server.releases.problems import ReleaseRefused
from fleet_server.releases.roles import DIRECTOR, ONLINE_ROLES

_Public = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class OnlinePublic(BaseModel):
    """The public halves, Ed25519 in hexadecimal: what a ceremony takes in."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["fleet-online-keys.v1"] = "fleet-online-keys.v1"
    snapshot: _Public
    timestamp: _Public
    director: _Public

    def key(self, role: str) -> SSlibKey:
        """The key of a role."""
        return bare_key(getattr(self, role))


class OnlineKeys:
    """The keys in one data directory.

    Args:
        paths: of the server.
    """

    def __init__(self, paths: ServerPaths) -> None:
        self._directory = paths.release_keys

    def ensure(self) -> None:
        """Make a key for each role that has none.

        Raises:
            ConfigError: the directory cannot be written.
        """
        for role in ONLINE_ROLES:
            if not self._files(role):
                self._make(role)

    def renew(self, roles: Collection[str]) -> None:
        """Make another key for each of these roles; `public` then names them, and a rotation puts them in force.

        Raises:
            ConfigError: the directory cannot be written.
        """
        for role in roles:
            self._make(role)

    def public(self) -> OnlinePublic:
        """The public halves of the newest keys, which are made where there are none."""
        self.ensure()
        return OnlinePublic(**{role: self._newest(role).public_key.keyval["public"] for role in ONLINE_ROLES})

    def signer(self, role: str, keyids: Collection[str]) -> Signer:
        """The key of a role that is one of these.

        Raises:
            ReleaseRefused: this server has none of them.
        """
        for path in reversed(self._files(role)):
            signer = _read(path)
            if signer.public_key.keyid in keyids:
                return signer
        raise ReleaseRefused(
            "online_keys",
            f"this server has no {role} key that the signed metadata names: restore {self._directory} from a "
            "backup, or rotate the online keys (docs/releases.md)",
        )

    def director(self, keyids: Collection[str] | None = None) -> Signer:
        """The key that signs assignments.

        Args:
            keyids: those that the verified targets name, see `repository.Trusted.keyids`; the newest key when None.

        Raises:
            ReleaseRefused: this server has none of them.
        """
        self.ensure()
        return self._newest(DIRECTOR) if keyids is None else self.signer(DIRECTOR, keyids)

    def _newest(self, role: str) -> CryptoSigner:
        return _read(self._files(role)[-1])

    def _files(self, role: str) -> list[Path]:
        return sorted(self._directory.glob(f"{role}.*.pem"))

    def _make(self, role: str) -> None:
        key = Ed25519PrivateKey.generate()
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        found = self._files(role)
        number = int(found[-1].name.split(".")[1]) + 1 if found else 1
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_file(self._directory / f"{role}.{number:04d}.pem", pem, 0o600)
        except OSError as error:
            raise ConfigError(f"{self._directory} cannot be written: {error.strerror}") from None


def _read(path: Path) -> CryptoSigner:
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (ValueError, TypeError):
        raise ConfigError(f"{path} is no private key: restore it from a backup") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{path} is no Ed25519 key: restore it from a backup")
    return CryptoSigner(key)
