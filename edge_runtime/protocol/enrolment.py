"""Enrolment and renewal, JSON over HTTPS: how a device gets the certificate that says which device it is.

The token pins the server's authority: `efr1.` and base64url of JSON. The device makes its key; the key never
leaves it.
"""

import base64
import binascii
import json
from enum import Enum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edge_runtime.protocol.metadata_limits import MAX_ROOT_BYTES
from edge_runtime.protocol.topics import DeviceId

_PREFIX = "efr1."
_MAX_TOKEN = 512

Pem = Annotated[str, Field(min_length=1, max_length=16_384)]


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class TokenError(ValueError):
    """A text that is no enrolment token."""


class EnrolmentToken(_Message):
    """What `fleet device invite` hands out.

    Attributes:
        id: names the invitation at the server.
        secret: proves it; the server keeps only its digest.
        authority: sha256 of the server's CA certificate (DER), hexadecimal.
    """

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    secret: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{32,64}$")]
    authority: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

    def __str__(self) -> str:
        body = json.dumps({"i": self.id, "s": self.secret, "a": self.authority}, separators=(",", ":"))
        return _PREFIX + base64.urlsafe_b64encode(body.encode()).decode().rstrip("=")

    def __repr__(self) -> str:
        return f"EnrolmentToken(id={self.id!r})"

    @classmethod
    def parse(cls, text: str) -> "EnrolmentToken":
        """The token in a text.

        Raises:
            TokenError: it is none; the text of the error does not repeat it.
        """
        text = text.strip()
        if not text.startswith(_PREFIX) or len(text) > _MAX_TOKEN:
            raise TokenError(f"not an enrolment token: one begins with {_PREFIX} (see fleet device invite)")
        body = text[len(_PREFIX) :]
        try:
            found = json.loads(base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True))
            return cls(id=found["i"], secret=found["s"], authority=found["a"])
        except (binascii.Error, ValueError, KeyError, TypeError, ValidationError):
            raise TokenError("a damaged enrolment token: copy it again, whole") from None


class EnrolmentState(str, Enum):
    """What the server made of a request."""

    ACTIVE = "active"
    PENDING = "pending"


class BrokerTransport(str, Enum):
    """How MQTT reaches the broker."""

    TCP = "tcp"
    WEBSOCKETS = "websockets"


class BrokerAddress(_Message):
    """Where the broker listens, with TLS always."""

    host: Annotated[str, Field(min_length=1, max_length=253)]
    port: Annotated[int, Field(ge=1, le=65_535)]
    transport: BrokerTransport = BrokerTransport.TCP
    path: Annotated[str, Field(max_length=128)] = "/mqtt"


class EnrolmentRequest(_Message):
    """POST /v1/enrolment. Repeating it with the same key while it is pending asks again, and is no second use.

    Attributes:
        csr: PEM, self-signed by the device's new key; its subject is ignored but for a wished common name.
        serial: hardware serial number, needed for a batch claim.
        device: wished id; the server decides.
    """

    token_id: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    secret: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{32,64}$")]
    csr: Pem
    serial: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[\x21-\x7e]+$")] | None = None
    device: DeviceId | None = None


class EnrolmentResponse(_Message):
    """The answer to an enrolment or a renewal.

    Attributes:
        certificate: PEM of the device's certificate; None while pending.
        authority: PEM of the CA to trust from now on.
        renew_after_s: seconds from now after which the device should renew.
        release_root: the fleet's trusted `root.json`, with which the device begins to verify releases; None while
            pending, in the answer to a renewal, and where the fleet has no keys for releases.
    """

    device: DeviceId
    state: EnrolmentState
    certificate: Pem | None = None
    authority: Pem
    broker: BrokerAddress
    renew_after_s: Annotated[int, Field(ge=1)]
    release_root: Annotated[str, Field(min_length=2, max_length=MAX_ROOT_BYTES)] | None = None


class RenewalChallenge(_Message):
    """POST /v1/renewal/challenge."""

    nonce: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{32,64}$")]


class RenewalRequest(_Message):
    """POST /v1/renewal. Signed rather than sent over the old certificate's TLS: it may have run out.

    Attributes:
        certificate: the one that the device has, PEM.
        csr: PEM with the device's next key, or the same.
        signature: base64 of the old key's ECDSA (SHA-256) over `renewal_message(nonce, csr)`.
    """

    certificate: Pem
    csr: Pem
    nonce: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{32,64}$")]
    signature: Annotated[str, Field(min_length=1, max_length=256)]


def renewal_message(nonce: str, csr: str) -> bytes:
    """The bytes that a renewal signs."""
    return b"edge-fleet renewal v1\n" + nonce.encode() + b"\n" + csr.encode()
