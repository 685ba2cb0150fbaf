"""One refresh: tuf's `Updater` fetches and verifies into a folder; here its road and its refusals are ours."""

from collections.abc import Iterator
from urllib.parse import unquote

from tuf.api.exceptions import (
    BadVersionNumberError,
    DownloadError,
    DownloadHTTPError,
    ExpiredMetadataError,
    RepositoryError,
)
from tuf.ngclient import Updater, UpdaterConfig
from tuf.ngclient.fetcher import FetcherInterface

from edge_runtime.errors import first_line
from edge_runtime.protocol.metadata_limits import (
    MAX_ROOT_BYTES,
    MAX_SNAPSHOT_BYTES,
    MAX_TARGETS_BYTES,
    MAX_TIMESTAMP_BYTES,
)
from edge_runtime.protocol.release import BUNDLE_NAME, ReleaseKind
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.trust.cache import MetadataFolder
from edge_runtime.updates.trust.chain import verify_chain
from edge_runtime.updates.trust.fetch import FetchFailed, Get
from edge_runtime.updates.trust.moment import JudgedTime

LIMITS = UpdaterConfig(
    max_root_rotations=256,
    root_max_length=MAX_ROOT_BYTES,
    timestamp_max_length=MAX_TIMESTAMP_BYTES,
    snapshot_max_length=MAX_SNAPSHOT_BYTES,
    targets_max_length=MAX_TARGETS_BYTES,
)
"""Bytes of one file, before anything of it is read."""

_BASE = "metadata:///"


class _Failed(DownloadError):
    """A `FetchFailed` on its way through tuf."""

    def __init__(self, cause: FetchFailed) -> None:
        super().__init__(str(cause))
        self.code = cause.code


class _Road(FetcherInterface):
    """Gives tuf's `Updater` its files from a `Get`, in memory: its own way goes through a file in /tmp.

    Attributes:
        last: the file that came last, with its name.
    """

    def __init__(self, get: Get) -> None:
        self._get = get
        self.last: tuple[str, bytes] = ("", b"")

    def download_bytes(self, url: str, max_length: int) -> bytes:
        """A file of metadata."""
        name = unquote(url.removeprefix(_BASE))
        try:
            data = self._get(name, max_length)
        except FetchFailed as error:
            if error.status is not None:
                raise DownloadHTTPError(str(error), error.status) from None
            raise _Failed(error) from None
        self.last = (name, data)
        return data

    def _fetch(self, url: str) -> Iterator[bytes]:
        yield self.download_bytes(url, LIMITS.targets_max_length)


def refresh_into(folder: MetadataFolder, anchor: bytes, get: Get, moment: JudgedTime) -> None:
    """Bring a folder's metadata up to date.

    Args:
        folder: of a copy: when this raises, it may hold new and old files side by side.
        anchor: the trusted root.
        get: the road.
        moment: for what an expiry means. tuf itself judges by the machine's clock.

    Raises:
        UpdateRefused: as `Trust.refresh`.
        OSError: the folder cannot be written.
    """
    road = _Road(get)
    try:
        updater = Updater(str(folder.path), _BASE, fetcher=road, config=LIMITS, bootstrap=anchor)
        updater.refresh()
        chain = verify_chain(folder.kept(anchor, 0))
        for kind in ReleaseKind:
            if chain.lists(kind.role):
                _refresh_role(updater, road, folder, kind.role)
    except _Failed as error:
        raise UpdateRefused(error.code, f"metadata did not come: {error}", again=True) from None
    except DownloadError as error:
        raise UpdateRefused(
            UpdateCode.METADATA_UNAVAILABLE, f"metadata did not come: {first_line(error)}", again=True
        ) from None
    except ExpiredMetadataError as error:
        raise moment.ended(f"what the fleet server gave has ended ({first_line(error)})") from None
    except BadVersionNumberError as error:
        raise UpdateRefused(
            UpdateCode.METADATA_ROLLBACK,
            f"what the fleet server gave is older than what it gave before: {first_line(error)}",
            again=True,
        ) from None
    except RepositoryError as error:
        raise UpdateRefused(
            UpdateCode.METADATA_INVALID,
            f"what the fleet server gave is not what was signed: {first_line(error)}",
            again=True,
        ) from None


def _refresh_role(updater: Updater, road: _Road, folder: MetadataFolder, role: str) -> None:
    """Have the metadata of a delegated role fetched: tuf does it when a target of that role is asked for.

    Where it has expired it is kept all the same. Its releases are refused for that reason when one is assigned; the
    other roles, and holding what runs, must not wait for it.
    """
    try:
        updater.get_targetinfo(f"{role}/-/0/{BUNDLE_NAME}")
    except ExpiredMetadataError:
        name, data = road.last
        if name.endswith(f".{role}.json"):
            (folder.path / f"{role}.json").unlink(missing_ok=True)
            (folder.path / f"{role}.json").write_bytes(data)
