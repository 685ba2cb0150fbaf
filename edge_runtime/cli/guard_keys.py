"""Keys and records of those who acknowledge: made, read and signed on any machine, the device or another."""

import base64
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from edge_runtime.config.base import NAME_PATTERN
from edge_runtime.config.regular_file import open_regular
from edge_runtime.errors import ConfigError
from edge_runtime.guard.acknowledgement import SIGNED_PREFIX, text_of
from edge_runtime.guard.strict_json import strict_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

LARGEST_FILE = 16 * 1024


def key_name(given: str | None, file: Path) -> str:
    """The name of a key in the configuration: as given, else that of its file without what follows the dot.

    Raises:
        ConfigError: it is no name that a configuration can hold.
    """
    name = file.stem if given is None else given
    if not re.fullmatch(NAME_PATTERN, name):
        raise ConfigError(
            f"{name[:80]!r} is no name of a key: letters, digits, - and _; give one with --name"
        )
    return name


def new_key(path: Path, passphrase: str | None) -> str:
    """Make a private key, in a file that only its owner reads.

    Args:
        path: of the file, which must not exist.
        passphrase: to encrypt it with; None leaves it as it is.

    Returns:
        The public key in hex.

    Raises:
        ConfigError: the file cannot be made.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        KeySerializationEncryption,
        NoEncryption,
        PrivateFormat,
    )

    key = Ed25519PrivateKey.generate()
    encryption: KeySerializationEncryption = NoEncryption()
    if passphrase is not None:
        encryption = BestAvailableEncryption(passphrase.encode())
    write_new(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    return public_hex(key)


def public_hex(key: "Ed25519PrivateKey") -> str:
    """The public key in hex, as the configuration wants it."""
    return key.public_key().public_bytes_raw().hex()


def read_key(path: Path, passphrase_file: Path | None) -> "Ed25519PrivateKey":
    """The private key in a PEM; asks for its passphrase on a terminal where it has one.

    Args:
        path: of the file.
        passphrase_file: its first line is the passphrase.

    Raises:
        ConfigError: it cannot be read, others may read it, it is of another kind, or the passphrase is wrong.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    pem = _read(path)
    if path.stat().st_mode & 0o077:
        raise ConfigError(f"{path} can be read by others, who could sign with it: chmod 600 {path}")
    passphrase = _passphrase(path, passphrase_file) if b"ENCRYPTED" in pem else None
    try:
        key = load_pem_private_key(pem, passphrase)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        why = "is no private key in PEM" if passphrase is None else "is damaged, or the passphrase is wrong"
        raise ConfigError(f"{path} {why}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{path} is not an Ed25519 key; edge-runtime guard key new makes one")
    return key


def signed_record(key: "Ed25519PrivateKey", name: str, latch: str, device: str, note: str) -> dict[str, str]:
    """What the guard wants to see: a text that names the latch, signed.

    Args:
        key: of whoever acknowledges.
        name: of the key in the configuration of the device.
        latch: id of the latch.
        device: id of the device.
        note: why it is safe to go on.

    Raises:
        ConfigError: longer than the guard reads.
    """
    try:
        text = text_of(latch, device, name, note)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return {
        "text": base64.b64encode(text).decode(),
        "key": name,
        "signature": base64.b64encode(key.sign(SIGNED_PREFIX + text)).decode(),
    }


def read_record(path: Path) -> dict[str, Any]:
    """A record that was signed elsewhere.

    Raises:
        ConfigError: the file holds none.
    """
    try:
        found = strict_json(_read(path))
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.keys() != {"text", "key", "signature"}:
        raise ConfigError(f"{path} is no acknowledgement; edge-runtime guard ack --out writes one")
    return found


def named_in(record: dict[str, Any]) -> str | None:
    """The latch that a record names; None where it cannot be read, which the guard will say."""
    try:
        said = strict_json(base64.b64decode(record["text"], validate=True))
    except (ValueError, TypeError):
        return None
    latch = said.get("latch") if isinstance(said, dict) else None
    return latch if isinstance(latch, str) else None


def write_record(path: Path, record: dict[str, str]) -> None:
    """Leave a record in a new file.

    Raises:
        ConfigError: it cannot be made, or is there already.
    """
    write_new(path, (json.dumps(record) + "\n").encode())


def write_new(path: Path, data: bytes) -> None:
    """Write a file that did not exist and that only its owner reads.

    Raises:
        ConfigError: it exists, or cannot be made.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
    except FileExistsError:
        raise ConfigError(f"{path} exists; nothing is overwritten") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def _read(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read(LARGEST_FILE)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def first_line(file: Path) -> str:
    """The passphrase in a file.

    Raises:
        ConfigError: it cannot be read, or its first line is empty.
    """
    try:
        line = _read(file).decode().split("\n")[0].rstrip("\r")
    except UnicodeDecodeError:
        line = ""
    if not line:
        raise ConfigError(f"{file}: its first line is no passphrase")
    return line


def _passphrase(path: Path, file: Path | None) -> bytes:
    if file is not None:
        return first_line(file).encode()
    if not sys.stdin.isatty():
        raise ConfigError(f"{path} has a passphrase; give it with --passphrase-file, or at a terminal")
    return str(typer.prompt(f"Passphrase of {path}", hide_input=True, err=True)).encode()
