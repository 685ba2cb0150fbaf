"""The bootstrap root: the one file of metadata that a device is given and does not verify by another.

Enrolment writes it, and so does `edge-runtime update trust FILE`. Everything else that people sign is trusted
because this root, or one that it leads to, names their keys.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.durable import write_file
from edge_runtime.protocol.metadata_limits import MAX_ROOT_BYTES
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.problems import UpdateRefused, disk_refusal

ROOT_NAME = "root.json"
METADATA_NAME = "metadata"


@dataclass(frozen=True, slots=True)
class BootstrapRoot:
    """What a root says of itself, for people who compare it with another.

    Attributes:
        version: of the root.
        fingerprint: SHA-256 of what it says, whoever has signed it: what `fleet keys` shows of it.
        threshold: signatures that its successor needs.
        keys: that may make them.
        expires_ms: milliseconds since 1970; an expired root still leads to its successors.
    """

    version: int
    fingerprint: str
    threshold: int
    keys: int
    expires_ms: int


def check_root(data: bytes) -> BootstrapRoot:
    """Look at a file that is offered as a root.

    Raises:
        UpdateRefused: METADATA_INVALID: it is too long, no root, or not signed by its own threshold.
    """
    # tuf takes 0.13 s to import, and enrolment is a command that a person waits for
    from tuf.api.metadata import Metadata, Root  # noqa: PLC0415

    from edge_runtime.updates.trust.chain import KeptMetadata, end_ms, newest_root  # noqa: PLC0415

    if len(data) > MAX_ROOT_BYTES:
        raise UpdateRefused(
            UpdateCode.METADATA_INVALID, f"a root has at most {MAX_ROOT_BYTES} bytes: this is another file"
        )
    root, _ = newest_root(KeptMetadata(data, {}, {}))
    role = root.roles["root"]
    fingerprint = hashlib.sha256(Metadata[Root].from_bytes(data).signed_bytes).hexdigest()
    return BootstrapRoot(root.version, fingerprint, role.threshold, len(role.keyids), end_ms(root))


def read_root(updates: Path) -> bytes:
    """The bootstrap root of a device.

    Args:
        updates: `STATE/updates`.

    Raises:
        UpdateRefused: METADATA_UNAVAILABLE: there is none.
    """
    try:
        with (updates / ROOT_NAME).open("rb") as file:
            return file.read(MAX_ROOT_BYTES + 1)
    except FileNotFoundError:
        text = "this device was given no root of trust: enrol again, or edge-runtime update trust FILE"
    except OSError as error:
        text = f"{updates / ROOT_NAME} cannot be read ({error.strerror}): edge-runtime update trust FILE"
    raise UpdateRefused(UpdateCode.METADATA_UNAVAILABLE, text)


def write_root(updates: Path, data: bytes, *, replace: bool = False) -> BootstrapRoot | None:
    """Check a root and write it down durably as the bootstrap root.

    Args:
        updates: `STATE/updates`; made where it is missing.
        data: the file.
        replace: take the place of another one. A person's decision: what was trusted by the other is forgotten.

    Returns:
        What is trusted now, by this file or by one that has led to it already; None where another root was there
        and stays.

    Raises:
        UpdateRefused: METADATA_INVALID, see `check_root`; NO_SPACE.
    """
    found = check_root(data)
    path = updates / ROOT_NAME
    try:
        if path.exists():
            if path.read_bytes() == data or _was_reached(updates, found.version, data):
                return found
            if not replace:
                return None
        updates.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(path, data, 0o600)
    except OSError as error:
        raise refusal_of(error, "the root of trust cannot be written") from None
    return found


def _was_reached(updates: Path, version: int, data: bytes) -> bool:
    """Whether the root that is trusted has led to this one: a fleet whose root is newer enrols devices with it."""
    from edge_runtime.updates.trust.cache import MetadataFolder  # noqa: PLC0415 - imports tuf, as above

    return MetadataFolder(updates / METADATA_NAME).root(version) == data


def refusal_of(error: OSError, what: str) -> UpdateRefused:
    """The refusal for a folder that cannot be written."""
    return disk_refusal(error, UpdateCode.METADATA_UNAVAILABLE, what)
