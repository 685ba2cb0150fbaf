"""The state directory: everything that a device keeps across restarts, in one place that only its owner reads.

```
STATE/identity/            key, certificate and what enrolment said
STATE/outbox/              outbox.db, ballast, quarantine/, and the lock of the one process that owns them
STATE/run/outbox.sock      where other processes reach the outbox
STATE/guard/               the latch, and flight/ with the flight recorder's files
STATE/run/guard.sock       where people and adapters speak to the guard
STATE/run/motion.sock      where commands for motion come to the motion gate
STATE/run/adapters.sock    where a robot's adapters report pose, map and batteries
STATE/evidence/            crops that wait for a person or an upload, named by their SHA-256
STATE/engines/             engines that TensorRT built here, with what is known of them
STATE/updates/             releases that the fleet assigned, and what became of them
STATE/run/perception.sock  where the updates' process asks perception to try, take or leave a model
STATE/run/updates.sock     where people and applications ask for updates' status and lock them
STATE/policy.yaml          the policy, where the configuration names no other
STATE/updates/policy.yaml  the policy that the fleet assigned, in place of any other
```
"""

import os
import re
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.errors import ConfigError
from edge_runtime.socket_path import short_socket_path

__all__ = ["ENVIRONMENT", "StateDirectory", "default_state_path", "peer_uid", "short_socket_path"]

ENVIRONMENT = "EDGE_RUNTIME_STATE"
"""Names the state directory where no `--state` is given."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


def default_state_path() -> Path:
    """Where state lies when nobody says: `/var/lib/edge-runtime` for root, else under the user's state home."""
    if os.geteuid() == 0:
        return Path("/var/lib/edge-runtime")
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "edge-runtime"


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """Paths below one state directory.

    Attributes:
        path: the directory itself.
    """

    path: Path

    @classmethod
    def find(cls, option: Path | str | None = None) -> "StateDirectory":
        """The directory of a `--state` option, of the environment, or the default one; nothing is made."""
        chosen = option or os.environ.get(ENVIRONMENT) or default_state_path()
        return cls(Path(chosen).expanduser().absolute())

    @property
    def identity(self) -> Path:
        """Folder of the device's key and certificate."""
        return self.path / "identity"

    @property
    def outbox(self) -> Path:
        """Folder of the queue's database."""
        return self.path / "outbox"

    @property
    def run(self) -> Path:
        """Folder of sockets; they mean nothing after a restart."""
        return self.path / "run"

    @property
    def outbox_socket(self) -> Path:
        """Where the outbox's process listens; see `short_socket_path`."""
        return self.run / "outbox.sock"

    @property
    def guard(self) -> Path:
        """Folder of the latch and of the flight recorder."""
        return self.path / "guard"

    @property
    def guard_socket(self) -> Path:
        """Where the guard listens."""
        return self.run / "guard.sock"

    @property
    def motion_socket(self) -> Path:
        """Where the motion gate listens."""
        return self.run / "motion.sock"

    @property
    def adapters_socket(self) -> Path:
        """Where a robot's adapters report."""
        return self.run / "adapters.sock"

    @property
    def evidence(self) -> Path:
        """Folder of crops that wait for a person or an upload."""
        return self.path / "evidence"

    @property
    def engines(self) -> Path:
        """Folder of engines that TensorRT built."""
        return self.path / "engines"

    @property
    def uplink(self) -> Path:
        """Folder of what the uplink keeps."""
        return self.path / "uplink"

    @property
    def updates(self) -> Path:
        """Folder of releases, and of what became of assignments."""
        return self.path / "updates"

    @property
    def assigned_policy(self) -> Path:
        """The policy of a configuration that the fleet assigned; wherever there is one, it holds.

        The process of the cameras writes it, and every process that decides by a policy follows it.
        """
        return self.updates / "policy.yaml"

    @property
    def perception_socket(self) -> Path:
        """Where perception takes models to try, take or leave."""
        return self.run / "perception.sock"

    @property
    def updates_socket(self) -> Path:
        """Where people and applications speak to updates."""
        return self.run / "updates.sock"

    @property
    def policy(self) -> Path:
        """The policy's default place."""
        return self.path / "policy.yaml"

    def evidence_file(self, sha256: str) -> Path:
        """Where the crop with this digest lies.

        Raises:
            ValueError: `sha256` is not 64 lower-case hexadecimal digits; it may never become another path.
        """
        if not _SHA256.fullmatch(sha256):
            raise ValueError("not a SHA-256 in lower-case hexadecimal")
        return self.evidence / f"{sha256}.jpg"

    def ensure(self) -> "StateDirectory":
        """Make the directory and its folders, readable by their owner alone.

        An existing state directory keeps its mode, because it may be a mount that others look at; the folders in
        it are always 0700.

        Raises:
            ConfigError: it cannot be made, is no directory, or belongs to another user.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._require_own(self.path)
            own = (
                self.identity,
                self.outbox,
                self.guard,
                self.run,
                self.evidence,
                self.engines,
                self.updates,
            )
            for folder in own:
                folder.mkdir(mode=0o700, exist_ok=True)
                self._require_own(folder)
                if folder.stat().st_mode & 0o077:
                    folder.chmod(0o700)
        except OSError as error:
            raise ConfigError(
                f"state directory {self.path}: {error.strerror}; name another with --state or {ENVIRONMENT}"
            ) from None
        return self

    def _require_own(self, folder: Path) -> None:
        owner = folder.stat().st_uid
        if owner != os.geteuid():
            raise ConfigError(
                f"state directory {folder} belongs to user {owner}, not to {os.geteuid()}; "
                f"run as its owner, or name another with --state or {ENVIRONMENT}"
            )


def peer_uid(connection: socket.socket) -> int:
    """The user id at the other end of a Unix socket, by the kernel's word (SO_PEERCRED)."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)  # struct ucred: three ints
    return int.from_bytes(credentials[4:8], sys.byteorder)
