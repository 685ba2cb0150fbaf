"""The admin token of a data directory: whoever may read the authority's key needs no other permission."""

import hashlib
import secrets
from pathlib import Path

from edge_runtime.clock import NS_PER_MS, Clock
from edge_runtime.errors import EdgeRuntimeError
from fleet_server.authority.files import write_whole
from fleet_server.operators.roles import Role
from fleet_server.operators.tokens import TokenBook, parse_token
from fleet_server.storage import Store
from fleet_server.storage.operator_tables import ApiTokenRow

_MAX_BYTES = 1024


def ensure_admin_token(store: Store, path: Path, clock: Clock) -> None:
    """Have a file with a token that this database knows: it may be new, or another one than the file was made for.

    A token that was revoked stays so; a new one is made then.

    Raises:
        EdgeRuntimeError: the file cannot be read or written.
    """
    book = TokenBook(clock)
    text = _read(path)
    with store.write() as session:
        if text is not None and book.authenticate(session, text) is not None:
            return
        found = None if text is None else parse_token(text)
        if text is None or found is None or session.get(ApiTokenRow, found[0]) is not None:
            identity, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        else:
            identity, secret = found
        session.add(
            ApiTokenRow(
                id=identity,
                name=f"admin-{identity[:8]}",
                role=Role.ADMIN.value,
                secret_sha256=hashlib.sha256(secret.encode()).hexdigest(),
                created_ms=clock.wall().unix_ns // NS_PER_MS,
                expires_ms=None,
                revoked_ms=None,
            )
        )
        session.flush()
        write_whole(path, f"eft1.{identity}.{secret}\n".encode(), 0o600)


def _read(path: Path) -> str | None:
    try:
        with path.open("rb") as stream:
            return stream.read(_MAX_BYTES).decode("ascii", errors="replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EdgeRuntimeError(f"{path}: {error.strerror}") from None
