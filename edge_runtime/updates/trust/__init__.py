"""Trust: what people signed offline and what the director assigned, or a refusal by name.

`Trust` refreshes the TUF metadata and admits assignments; `HttpFetch` brings metadata over HTTPS. Everything that
judges (`chain`, `listing`, `moment`, `memory`, `admission`) takes bytes and times and does no input or output.

Importing this room costs nothing: tuf takes 0.2 s, and is imported with the first of these names.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edge_runtime.updates.trust.admission import Admitted, RunningRelease
    from edge_runtime.updates.trust.fetch import Fetch, FetchFailed
    from edge_runtime.updates.trust.http_fetch import FetchLimits, HttpFetch
    from edge_runtime.updates.trust.room import Standing, Trust, peek

__all__ = [
    "Admitted",
    "Fetch",
    "FetchFailed",
    "FetchLimits",
    "HttpFetch",
    "RunningRelease",
    "Standing",
    "Trust",
    "peek",
]

_HOMES = {
    "Admitted": "admission",
    "Fetch": "fetch",
    "FetchFailed": "fetch",
    "FetchLimits": "http_fetch",
    "HttpFetch": "http_fetch",
    "RunningRelease": "admission",
    "Standing": "room",
    "Trust": "room",
    "peek": "room",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
