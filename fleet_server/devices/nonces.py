"""Nonces for renewals that need no memory until they are used: a secret of the authority seals them.

Anybody may ask for one, so handing it out must cost nothing: a table of them would be a table for strangers.
"""

import base64
import hashlib
import hmac
import secrets

LIFETIME_S = 120
_RANDOM, _SEAL = 12, 16


class NonceMaker:
    """Makes and checks nonces.

    Args:
        secret: 32 bytes, the same in all processes of the server.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def make(self, now_ms: int) -> str:
        """A new nonce, good for `LIFETIME_S`."""
        body = (now_ms // 1000 + LIFETIME_S).to_bytes(6, "big") + secrets.token_bytes(_RANDOM)
        return _text(body + self._seal(body))

    def expires_ms(self, nonce: str, now_ms: int) -> int | None:
        """When a nonce ends, milliseconds since 1970; None when it is not ours or has ended."""
        try:
            found = base64.b64decode(nonce + "=" * (-len(nonce) % 4), altchars=b"-_", validate=True)
        except ValueError:
            return None
        if nonce != _text(found):  # one challenge has one text: used ones are remembered by it
            return None
        body, seal = found[:-_SEAL], found[-_SEAL:]
        if not hmac.compare_digest(seal, self._seal(body)):
            return None
        ends_ms = int.from_bytes(body[:6], "big") * 1000
        return ends_ms if ends_ms > now_ms else None

    def _seal(self, body: bytes) -> bytes:
        return hmac.digest(self._secret, body, hashlib.sha256)[:_SEAL]


def _text(sealed: bytes) -> str:
    return base64.urlsafe_b64encode(sealed).decode().rstrip("=")
