"""What is in a release, looked at on the server: every file, the package, its golden vectors."""

import contextlib
import os
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from edge_runtime.errors import PackageError
from edge_runtime.packages import ModelManifest, open_package
from edge_runtime.protocol.release import Bundle, ReleaseKind, ReleaseTerms
from edge_runtime.protocol.release_content import why_file_refused
from edge_runtime.protocol.release_values import Declared
from fleet_server.releases.blobs import BlobFolder
from fleet_server.releases.fitness import require_bundle, require_values
from fleet_server.releases.overlays import CONFIGURATION_FILES, read_configuration
from fleet_server.releases.package_check import PackageChecks
from fleet_server.releases.packing import parse_bundle
from fleet_server.releases.problems import ReleaseRefused
from fleet_server.releases.repository import Trusted

PATIENCE_S = 5.0
"""A request waits so long for a look into the files; gigabytes take longer, and it is asked again."""

_KEPT = 64


@dataclass(frozen=True, slots=True)
class Inspected:
    """A release whose files were looked at.

    Attributes:
        manifest: of a model's package; None for a configuration.
    """

    terms: ReleaseTerms
    bundle: Bundle
    manifest: ModelManifest | None


@dataclass(slots=True)
class _Look:
    """One look into the files of a bundle, in a thread of its own.

    Attributes:
        manifest: what was found, of a model.
        values: the same of a configuration.
        error: why it may not be published; it is raised for whoever asks next, and the look is then forgotten.
    """

    done: threading.Event = field(default_factory=threading.Event)
    manifest: ModelManifest | None = None
    values: Declared = field(default_factory=dict)
    error: Exception | None = None


class ContentCheck:
    """Looks into releases whose files are here. What was found of a bundle is kept: its files do not change.

    Args:
        scratch: where folders are made for the time of a look, on the file system of the blobs.
        blobs: the files.
        checks: run golden vectors.
    """

    def __init__(self, scratch: Path, blobs: BlobFolder, checks: PackageChecks) -> None:
        self._scratch, self._blobs, self._checks = scratch, blobs, checks
        self._lock = threading.Lock()
        self._looks: OrderedDict[bytes, _Look] = OrderedDict()

    def inspect(self, terms: ReleaseTerms, bundle: Bundle) -> Inspected | None:
        """Look at every file; None where that takes longer than a request should.

        Raises:
            ReleaseRefused: something in it may not be in a release, or it is not what it says.
        """
        key = bundle.canonical_bytes()
        with self._lock:
            look = self._looks.get(key)
            if look is None:
                look = self._looks[key] = _Look()
                threading.Thread(target=self._look, args=(look, bundle), name="look", daemon=True).start()
        if not look.done.wait(PATIENCE_S):
            return None
        with self._lock:
            if look.error is not None:
                self._looks.pop(key, None)
                raise look.error
            while len(self._looks) > _KEPT:
                self._looks.popitem(last=False)
        require_values(terms, look.values)
        return Inspected(terms, bundle, look.manifest)

    def _look(self, look: _Look, bundle: Bundle) -> None:
        try:
            with self._folder(bundle) as folder:
                if bundle.kind is ReleaseKind.MODEL:
                    look.manifest = _model(folder)
                else:
                    look.values = _configuration(folder, bundle)
        except ReleaseRefused as error:
            look.error = error
        except OSError as error:
            reason = error.strerror or type(error).__name__
            look.error = ReleaseRefused("no_space", f"the files cannot be looked at now: {reason}", 507)
        except Exception as error:  # noqa: BLE001 - whoever asks must be told, and this thread has no other reader
            look.error = error
        finally:
            look.done.set()

    def is_checked(self, inspected: Inspected) -> bool:
        """Whether the golden vectors have run and were right; False while they run. A configuration has none.

        Raises:
            ReleaseRefused: they were not, or could not run.
        """
        if inspected.manifest is None:
            return True
        verdict = self._checks.ask(inspected.manifest.digest(), lambda: self._folder(inspected.bundle))
        if verdict is None:
            return False
        if not verdict.fit:
            raise ReleaseRefused("unfit", f"{inspected.terms.target} is not fit: {verdict.text}")
        return True

    @contextlib.contextmanager
    def _folder(self, bundle: Bundle) -> Iterator[Path]:
        """The release as a folder of hard links, looked at for anything executable."""
        self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=self._scratch, prefix="checking."))
        try:
            for file in bundle.files:
                blob, place = self._blobs.whole(file.sha256), folder / file.path
                with blob.open("rb") as stream:
                    if why := why_file_refused(file.path, stream):
                        raise ReleaseRefused(
                            "executable-content", f"{file.path} may not be in a release: it is {why}"
                        )
                place.parent.mkdir(parents=True, exist_ok=True)
                os.link(blob, place)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def published_bundle(text: str | None, terms: ReleaseTerms, before: Trusted | None) -> Bundle:
    """The bundle that came with a proposal, once it fits its terms.

    Raises:
        ReleaseRefused: it does not, or the terms let devices back to what is no release of this line.
    """
    if text is None:
        raise ReleaseRefused("bundle", "the proposal has no bundle")
    bundle = parse_bundle(text.encode())
    require_bundle(terms, bundle)
    require_known_back(terms, before)
    return bundle


def require_known_back(terms: ReleaseTerms, before: Trusted | None) -> None:
    """Refuse terms that let devices back to what is no release of their line.

    Raises:
        ReleaseRefused: they do.
    """
    known = (
        set()
        if before is None
        else {
            target.hashes["sha256"]
            for path, target in before.roles[terms.kind.role].signed.targets.items()
            if path.split("/")[1] == terms.name
        }
    )
    unknown = [sha256 for sha256 in terms.rollback_to if sha256 not in known]
    if unknown:
        raise ReleaseRefused(
            "rollback_to",
            f"{terms.target} lets devices back to {unknown[0][:12]}, which is no release of {terms.name}",
        )


def _model(folder: Path) -> ModelManifest:
    try:
        return open_package(folder).manifest
    except PackageError as error:
        text = str(error).replace(str(folder), "the package")
        raise ReleaseRefused("package", text[:400]) from None


def _configuration(folder: Path, bundle: Bundle) -> Declared:
    names = {file.path for file in bundle.files}
    if "overlay.yaml" not in names or names - set(CONFIGURATION_FILES):
        raise ReleaseRefused(
            "configuration",
            f"a configuration has overlay.yaml, and beside it only {', '.join(CONFIGURATION_FILES)}",
        )
    return read_configuration({name: folder / name for name in names})
