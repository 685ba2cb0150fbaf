"""What the director signs with: the online key that the signed metadata names, and the versions to ask for."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from securesystemslib.signer import Signer

from fleet_server.releases.catalog import Reader, metadata, newest_version
from fleet_server.releases.online_keys import OnlineKeys
from fleet_server.releases.problems import ReleaseRefused
from fleet_server.releases.repository import keys_of, parse
from fleet_server.releases.roles import DIRECTOR, ROOT, SNAPSHOT, TARGETS


@dataclass(frozen=True, slots=True)
class Signing:
    """What an assignment is signed with now.

    Attributes:
        root_version, snapshot_version: of the newest published metadata.
    """

    signer: Signer
    root_version: int
    snapshot_version: int


SigningNow = Callable[[Reader], Signing]
"""Asked within a reading transaction, for each batch."""


class PublishedSigning:
    """The director's key in force, looked up again once other metadata is published. Thread-safe.

    Args:
        keys: of this server.
    """

    def __init__(self, keys: OnlineKeys) -> None:
        self._keys = keys
        self._lock = threading.Lock()
        self._found: tuple[tuple[int, int], Signer] | None = None

    def __call__(self, reader: Reader) -> Signing:
        """The key and the versions.

        Raises:
            ReleaseRefused: nothing is published yet, or this server has no key that the metadata names.
        """
        versions = newest_version(reader, ROOT), newest_version(reader, TARGETS)
        with self._lock:
            if self._found is None or self._found[0] != versions:
                self._found = versions, self._signer(reader)
            return Signing(self._found[1], versions[0], newest_version(reader, SNAPSHOT))

    def _signer(self, reader: Reader) -> Signer:
        root, targets = metadata(reader, ROOT), metadata(reader, TARGETS)
        if root is None or targets is None:
            raise ReleaseRefused(
                "no_ceremony",
                "no device can be asked anything before people have published their keys: `fleet keys init`, then "
                "`fleet release publish` of the first proposal",
            )
        return self._keys.director(keys_of(parse(ROOT, root), parse(TARGETS, targets), DIRECTOR))
