"""Where things lie below the folder of updates."""

from dataclasses import dataclass
from pathlib import Path

from edge_runtime.protocol.release import BUNDLE_NAME


@dataclass(frozen=True, slots=True)
class Places:
    """Paths below `STATE/updates`.

    Attributes:
        root: that folder.
    """

    root: Path

    @property
    def blobs(self) -> Path:
        """Content, each file named by its SHA-256."""
        return self.root / "blobs"

    @property
    def parts(self) -> Path:
        """Downloads under way."""
        return self.root / "parts"

    @property
    def releases(self) -> Path:
        """Releases, each folder named by the SHA-256 of its bundle."""
        return self.root / "releases"

    @property
    def slots(self) -> Path:
        """What each slot runs."""
        return self.root / "slots.json"

    @property
    def slots_copy(self) -> Path:
        """The same once more, should the other be unreadable."""
        return self.root / "slots.copy.json"

    @property
    def trial_starts(self) -> Path:
        """How often perception began with a release on trial, a file for each slot."""
        return self.root / "trial-starts"

    @property
    def watched_starts(self) -> Path:
        """The same of a release that was accepted lately; a trial that comes after it leaves it as it is."""
        return self.root / "watched-starts"

    def blob(self, sha256: str) -> Path:
        """Where the content with this digest lies, if it is here."""
        return self.blobs / sha256

    def release(self, sha256: str) -> Path:
        """Folder of a release."""
        return self.releases / sha256

    def files(self, sha256: str) -> Path:
        """Folder of a release's files: for a model, a package."""
        return self.release(sha256) / "files"

    def bundle(self, sha256: str) -> Path:
        """The release's list of files."""
        return self.release(sha256) / BUNDLE_NAME

    def terms(self, sha256: str) -> Path:
        """The terms under which the release was taken."""
        return self.release(sha256) / "terms.json"
