"""The server's data directory: where its files lie.

```
DIR/settings.toml                       see fleet_server/settings.py
DIR/authority/{ca.key, ca.pem}          the certificate authority
DIR/tls/{server,ingest}.{key,pem}       the server's own certificates
DIR/fleet.db                            the database, unless settings or --database name another
DIR/broker/                             files of the embedded broker
DIR/evidence/                           what devices uploaded, by digest
DIR/releases/keys/                      the server's own keys for signed metadata and assignments
DIR/releases/blobs/                     files of releases, by digest
DIR/admin.token                         a token of the HTTP API for whoever may read this directory
DIR/external/                           what an external broker reads, unless settings name another folder
DIR/run/                                numbers of the running processes; means nothing after a restart
```
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ServerPaths:
    """Paths below one data directory.

    Attributes:
        root: the directory itself.
    """

    root: Path

    @property
    def settings(self) -> Path:
        """The settings file."""
        return self.root / "settings.toml"

    @property
    def authority(self) -> Path:
        """Folder of the certificate authority."""
        return self.root / "authority"

    @property
    def ca_key(self) -> Path:
        """Private key of the authority."""
        return self.authority / "ca.key"

    @property
    def ca_certificate(self) -> Path:
        """Certificate of the authority: what devices, brokers and clients trust."""
        return self.authority / "ca.pem"

    @property
    def tls(self) -> Path:
        """Folder of the server's own certificates."""
        return self.root / "tls"

    @property
    def server_key(self) -> Path:
        """Private key of the HTTP API and of the embedded broker."""
        return self.tls / "server.key"

    @property
    def server_certificate(self) -> Path:
        """Certificate of the HTTP API and of the embedded broker."""
        return self.tls / "server.pem"

    @property
    def ingest_key(self) -> Path:
        """Private key with which ingest shows itself to the broker."""
        return self.tls / "ingest.key"

    @property
    def ingest_certificate(self) -> Path:
        """Certificate with which ingest shows itself to the broker."""
        return self.tls / "ingest.pem"

    @property
    def database(self) -> Path:
        """The default database."""
        return self.root / "fleet.db"

    @property
    def broker(self) -> Path:
        """Folder of the embedded broker."""
        return self.root / "broker"

    @property
    def evidence(self) -> Path:
        """Folder of evidence."""
        return self.root / "evidence"

    @property
    def releases(self) -> Path:
        """Folder of releases."""
        return self.root / "releases"

    @property
    def release_keys(self) -> Path:
        """The server's own keys for signed metadata and assignments."""
        return self.releases / "keys"

    @property
    def release_blobs(self) -> Path:
        """Files of releases."""
        return self.releases / "blobs"

    @property
    def admin_token(self) -> Path:
        """Token of the HTTP API."""
        return self.root / "admin.token"

    @property
    def external(self) -> Path:
        """Folder of what an external broker reads."""
        return self.root / "external"

    @property
    def run(self) -> Path:
        """Numbers of the running processes."""
        return self.root / "run"
