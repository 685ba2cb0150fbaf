"""A private key in a file that a passphrase opens: scrypt and AES-256-GCM.

PKCS#8 as the `cryptography` package writes it derives its key by 2,048 rounds of PBKDF2, of which a graphics card
tries hundreds of thousands a second. Scrypt at this cost takes 128 MiB and a third of a second for each try.
"""

import secrets
from typing import Annotated, Literal

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from pydantic import BaseModel, ConfigDict, Field

from fleet_server.releases.problems import ReleaseRefused

COST = 17
"""Scrypt's n is 2 to this; 2^17 with r = 8 is 128 MiB."""

_HEX = r"^[0-9a-f]+$"


class SealedKey(BaseModel):
    """The file's content. Its public half stands beside it, and is bound to it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["fleet-sealed-key.v1"] = "fleet-sealed-key.v1"
    public: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    cost: Annotated[int, Field(ge=10, le=22)]
    salt: Annotated[str, Field(pattern=_HEX, min_length=32, max_length=64)]
    nonce: Annotated[str, Field(pattern=_HEX, min_length=24, max_length=24)]
    sealed: Annotated[str, Field(pattern=_HEX, min_length=96, max_length=96)]


def seal_key(key: Ed25519PrivateKey, passphrase: str, cost: int = COST) -> SealedKey:
    """A private key under a passphrase."""
    salt, nonce = secrets.token_bytes(16), secrets.token_bytes(12)
    public = key.public_key().public_bytes_raw()
    sealed = AESGCM(_derived(passphrase, salt, cost)).encrypt(nonce, key.private_bytes_raw(), public)
    return SealedKey(public=public.hex(), cost=cost, salt=salt.hex(), nonce=nonce.hex(), sealed=sealed.hex())


def open_key(sealed: SealedKey, passphrase: str) -> Ed25519PrivateKey:
    """The private key.

    Raises:
        ReleaseRefused: the passphrase is another one, or the file was changed.
    """
    cipher = AESGCM(_derived(passphrase, bytes.fromhex(sealed.salt), sealed.cost))
    try:
        raw = cipher.decrypt(
            bytes.fromhex(sealed.nonce), bytes.fromhex(sealed.sealed), bytes.fromhex(sealed.public)
        )
    except InvalidTag:
        raise ReleaseRefused("passphrase", "the passphrase does not open this key") from None
    return Ed25519PrivateKey.from_private_bytes(raw)


def _derived(passphrase: str, salt: bytes, cost: int) -> bytes:
    return Scrypt(salt=salt, length=32, n=1 << cost, r=8, p=1).derive(passphrase.encode())
