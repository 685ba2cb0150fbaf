"""Somebody else's broker: it is told by files that it reads, and by a command that makes it read them.

What mosquitto 2.0 does with them on SIGHUP: a revoked certificate cannot connect any more, and a device that is
out can neither write nor read from that moment on, but its open connection stays until it ends by itself. Only a
restart of mosquitto closes it. See docs/enrolment.md.
"""

import logging
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.errors import ConfigError
from fleet_server.authority import (
    CertificateAuthority,
    CertificateFiles,
    RevokedCertificate,
    revocation_list,
)
from fleet_server.authority.files import read_pem, write_whole
from fleet_server.broker.broker import BrokerError, BrokerState, BrokerStatus
from fleet_server.broker.mosquitto import access_list
from fleet_server.broker.users import BrokerUser

_log = logging.getLogger("fleet_server.broker")

_Told = tuple[frozenset[BrokerUser], frozenset[RevokedCertificate], bytes, bytes]

REWRITE_S = 86_400
"""The revocation list is written anew after this long even without a change, because it runs out."""


@dataclass(frozen=True, slots=True)
class ExternalFiles:
    """What an external broker reads: these files and no others, so that their folder is all that it is given.

    Attributes:
        folder: where they lie; made for the server's user alone where it is missing.
    """

    folder: Path

    @property
    def authority(self) -> Path:
        """Certificate of the authority."""
        return self.folder / "ca.pem"

    @property
    def certificate(self) -> Path:
        """What the broker shows: the server's own."""
        return self.folder / "server.pem"

    @property
    def key(self) -> Path:
        """Its key; readable by the folder's group too, for a broker that is another user."""
        return self.folder / "server.key"

    @property
    def revoked(self) -> Path:
        """The authority's revocation list, PEM."""
        return self.folder / "revoked.crl"

    @property
    def access(self) -> Path:
        """An access list as mosquitto reads it."""
        return self.folder / "access.acl"


class ExternalBroker:
    """Writes the files and calls the command.

    Args:
        files: where they lie.
        server: key and certificate that the broker shows; they are copied again when they were renewed.
        authority: signs the revocation list.
        clock: says when the list must be written anew.
        reload: a command with its arguments, for instance `systemctl reload mosquitto`; empty when the broker
            looks at the files by itself.
        reload_s: how long the command may take.
    """

    def __init__(
        self,
        files: ExternalFiles,
        server: CertificateFiles,
        authority: CertificateAuthority,
        clock: Clock,
        *,
        reload: Sequence[str] = (),
        reload_s: float = 10.0,
    ) -> None:
        self._files, self._server, self._authority, self._clock = files, server, authority, clock
        self._reload, self._reload_s = tuple(reload), reload_s
        self._told: _Told | None = None
        self._told_ns = 0
        self._trouble = ""

    def start(self, users: Collection[BrokerUser], revoked: Collection[RevokedCertificate]) -> None:
        """As `apply`, but a command that fails is only said: the broker may be started after this server.

        Raises:
            EdgeRuntimeError: a file cannot be written.
        """
        try:
            self.apply(users, revoked)
        except BrokerError as error:
            _log.warning("the external broker was not told yet, tried again: %s", error)

    def apply(self, users: Collection[BrokerUser], revoked: Collection[RevokedCertificate]) -> None:
        """Write the files and have them read, when something changed or the list is a day old.

        Raises:
            BrokerError: the command failed or took too long.
            EdgeRuntimeError: a file cannot be written.
        """
        key, certificate = read_pem(self._server.key), read_pem(self._server.certificate)
        wanted = (frozenset(users), frozenset(revoked), key, certificate)
        age_ns = self._clock.monotonic_ns() - self._told_ns
        if wanted == self._told and age_ns < REWRITE_S * NS_PER_S:
            return
        self._make_folder()
        write_whole(self._files.authority, self._authority.pem.encode(), 0o644)
        write_whole(self._files.key, key, 0o640)
        write_whole(self._files.certificate, certificate, 0o644)
        write_whole(self._files.access, access_list(users).encode(), 0o644)
        entries = sorted(revoked, key=lambda entry: entry.serial)
        write_whole(self._files.revoked, revocation_list(self._authority, entries), 0o644)
        self._trouble = self._call()
        if self._trouble:
            raise BrokerError(self._trouble)
        self._told, self._told_ns = wanted, self._clock.monotonic_ns()

    def status(self) -> BrokerStatus:
        """Only whether it was told; whether it runs is seen by whoever connects."""
        return BrokerStatus(BrokerState.EXTERNAL, trouble=self._trouble)

    def stop(self) -> None:
        """Nothing: it is not ours."""

    def _make_folder(self) -> None:
        try:
            self._files.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self._files.folder} cannot be made: {error.strerror}") from None

    def _call(self) -> str:
        """Run the command; what was wrong with it, or nothing."""
        if not self._reload:
            return ""
        try:
            done = subprocess.run(  # noqa: S603 - the operator's own command, no shell
                self._reload,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=self._reload_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"the broker's reload command took longer than {self._reload_s:.0f} s"
        except OSError as error:
            return f"the broker's reload command cannot be run: {error.strerror}"
        if done.returncode != 0:
            said = " ".join(done.stderr.decode(errors="replace").split())[:160]
            return f"the broker's reload command failed with code {done.returncode}: {said}"
        return ""
