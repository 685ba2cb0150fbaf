"""Where the identity lies, and how one takes another's place: at any moment there is the old one or the new one.

```
STATE/identity/{device.key, device.pem, authority.pem, identity.json}
STATE/enrolment/{device.key, request.json, lock}       a request that is not answered yet
```

A new identity is written whole into a folder beside and exchanged with the old folder in one step. Where the file
system cannot exchange, the old one is renamed away first; whoever looks between finds it there and puts it back.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edge_runtime.durable import exchange, sync_directory, write_file
from edge_runtime.identity.problems import IdentityError
from edge_runtime.protocol.enrolment import BrokerAddress
from edge_runtime.protocol.topics import DeviceId
from edge_runtime.state import StateDirectory

KEY, CERTIFICATE, AUTHORITY, RECORD = "device.key", "device.pem", "authority.pem", "identity.json"
_REQUEST = "request.json"
_STAGED, _PREVIOUS = ".identity.", ".identity-previous"
_MAX_BYTES = 65_536


class IdentityRecord(BaseModel):
    """`identity.json`.

    Attributes:
        client_id: under which this device speaks to the broker. It has a random part, because whoever knows
            another's client id can take its session over.
        not_before_ms, not_after_ms: of the certificate, milliseconds since 1970.
        renew_at_ms: when to renew, by the wall clock.
        token_id: which invitation it came from.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    version: int = 1
    device: DeviceId
    client_id: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,96}$")]
    server_url: Annotated[str, Field(max_length=512)]
    broker: BrokerAddress
    not_before_ms: int
    not_after_ms: int
    renew_at_ms: int
    token_id: Annotated[str, Field(max_length=16)] = ""


class PendingRequest(BaseModel):
    """`request.json`: what the key beside it asked for, so that asking again asks for the same."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    server_url: Annotated[str, Field(max_length=512)]
    authority: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    csr: Annotated[str, Field(max_length=16_384)]


RecordT = TypeVar("RecordT", bound=BaseModel)


def enrolment_folder(state: StateDirectory) -> Path:
    """Folder of a request that is not answered yet."""
    return state.path / "enrolment"


@contextlib.contextmanager
def locked(state: StateDirectory) -> Iterator[None]:
    """One process at a time changes the identity.

    Raises:
        IdentityError: another one does, or the folder cannot be made.
    """
    folder = enrolment_folder(state.ensure())
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise IdentityError(f"{folder} cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise IdentityError("another enrolment or renewal of this device is running: wait for it") from None
    try:
        yield
    finally:
        os.close(handle)


def load_record(state: StateDirectory) -> IdentityRecord | None:
    """What the device is, or None when it is not enrolled.

    Raises:
        IdentityError: there is something that cannot be read.
    """
    _put_back(state)
    path = state.identity / RECORD
    try:
        data = _read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise IdentityError(f"{path} cannot be read: {error.strerror}") from None
    record = _parsed(IdentityRecord, data)
    if record is None or record.version != 1:
        raise IdentityError(f"{path} is damaged or of a newer release: enrol again with a new token")
    return record


def read_text(state: StateDirectory, name: str) -> str:
    """One of the identity's PEM files.

    Raises:
        IdentityError: it is missing or cannot be read.
    """
    try:
        return _read(state.identity / name).decode("ascii", errors="replace")
    except OSError as error:
        raise IdentityError(f"{state.identity / name} cannot be read: {error.strerror}") from None


def save(state: StateDirectory, files: Mapping[str, bytes], record: IdentityRecord) -> None:
    """Make this the device's identity.

    Args:
        state: of the device.
        files: contents of `KEY`, `CERTIFICATE` and `AUTHORITY`.
        record: what they are.

    Raises:
        IdentityError: the disk is full or cannot be written; the old identity stays.
    """
    try:
        for left in state.path.glob(f"{_STAGED}*"):  # of a process that was killed here
            shutil.rmtree(left, ignore_errors=True)
        staged = Path(tempfile.mkdtemp(dir=state.path, prefix=_STAGED))  # 0700
        try:
            for name, data in {**files, RECORD: record.model_dump_json(indent=2).encode()}.items():
                write_file(staged / name, data, 0o600 if name == KEY else 0o644)
            _take_place(staged, state)
        finally:
            shutil.rmtree(staged, ignore_errors=True)
    except OSError as error:
        raise IdentityError(f"the identity cannot be written to {state.path}: {error.strerror}") from None


def load_request(state: StateDirectory) -> tuple[PendingRequest, bytes] | None:
    """A request that was made and the PEM of its key; None when there is none or it is not whole."""
    folder = enrolment_folder(state)
    try:
        request = _parsed(PendingRequest, _read(folder / _REQUEST))
        key = _read(folder / KEY)
    except OSError:
        return None
    return None if request is None else (request, key)


def save_request(state: StateDirectory, request: PendingRequest, key: bytes) -> None:
    """Keep a request before it is sent: a certificate for a key that a crash has lost would be lost with it.

    Raises:
        IdentityError: the disk is full or cannot be written.
    """
    folder = enrolment_folder(state)
    try:
        (folder / _REQUEST).unlink(missing_ok=True)  # never an old request beside a new key
        write_file(folder / KEY, key, 0o600)
        write_file(folder / _REQUEST, request.model_dump_json(indent=2).encode(), 0o600)
    except OSError as error:
        raise IdentityError(f"the request cannot be written to {folder}: {error.strerror}") from None


def drop_request(state: StateDirectory) -> None:
    """Forget a request that was answered or refused for good."""
    for name in (_REQUEST, KEY):
        (enrolment_folder(state) / name).unlink(missing_ok=True)


def _take_place(staged: Path, state: StateDirectory) -> None:
    sync_directory(staged)
    if exchange(staged, state.identity):  # the old one has the staged name now, and is deleted under it
        sync_directory(state.path)
        return
    previous = state.path / _PREVIOUS
    shutil.rmtree(previous, ignore_errors=True)
    state.identity.rename(previous)
    staged.rename(state.identity)
    sync_directory(state.path)
    shutil.rmtree(previous, ignore_errors=True)


def _put_back(state: StateDirectory) -> None:
    """Undo a `_take_place` that was killed between its two renames."""
    previous = state.path / _PREVIOUS
    if (state.identity / RECORD).exists() or not (previous / RECORD).exists():
        return
    with contextlib.suppress(OSError):
        if state.identity.exists():
            state.identity.rmdir()  # made anew and empty
        previous.rename(state.identity)
        sync_directory(state.path)


def _read(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(_MAX_BYTES)


def _parsed(kind: type[RecordT], data: bytes) -> RecordT | None:
    try:
        return kind.model_validate_json(data)
    except ValidationError:
        return None
