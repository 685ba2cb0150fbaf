"""What of a data directory belongs into a backup: its own files, and those that one state of the database names.

Left out is what a server makes anew: the broker's store (desired states are published again), the lists for
external brokers, uploads that are not whole (devices send them again), and what `run/` says of processes.
"""

from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import select

from fleet_server.paths import ServerPaths
from fleet_server.storage.engine import Store
from fleet_server.storage.event_tables import EvidenceRow
from fleet_server.storage.release_tables import ReleaseFileRow

_PUBLIC = (".pem",)


def own_files(paths: ServerPaths) -> Iterator[tuple[Path, bool]]:
    """Files of the directory itself that are there, with whether they are secret."""
    for path in (paths.settings, paths.ca_key, paths.ca_certificate, paths.admin_token):
        if path.is_file():
            yield path, path.suffix not in _PUBLIC
    for path in sorted(paths.tls.glob("*.*")):
        yield path, path.suffix not in _PUBLIC
    for path in sorted(paths.release_keys.glob("*.pem")):
        yield path, True


def named_files(paths: ServerPaths, store: Store) -> dict[Path, str]:
    """Files that the database names as whole, with their SHA-256; none of them ever changes."""
    with store.read() as session:
        evidence = session.scalars(
            select(EvidenceRow.sha256).where(EvidenceRow.state == "complete").distinct()
        ).all()
        blobs = session.scalars(select(ReleaseFileRow.sha256).distinct()).all()
    return {
        folder / digest[:2] / digest: digest
        for folder, digests in ((paths.evidence, evidence), (paths.release_blobs, blobs))
        for digest in sorted(digests)
    }
