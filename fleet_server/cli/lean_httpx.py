"""httpx without its own command line, which brings click, rich and pygments: two thirds of its time to import."""

import sys

# None in the table of modules is what Python itself takes for "cannot be imported", and httpx goes on without
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]

import httpx  # noqa: E402

__all__ = ["httpx"]
