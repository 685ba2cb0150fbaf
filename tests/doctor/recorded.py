"""Sets of facts of real boards, and changes to them."""

import json
from collections.abc import Mapping
from typing import Any

from edge_runtime.doctor import Facts, read_facts
from edge_runtime.doctor.facts import null_paths
from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / "tests" / "data" / "doctor"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.json").read_text(encoding="utf-8")


def facts_of(name: str, changes: Mapping[str, Any] | None = None) -> Facts:
    """A set, with values at dotted paths changed; `modules/pycuda` takes something away when it is None."""
    record = json.loads(text_of(name))
    facts = record["facts"]
    for path, value in (changes or {}).items():
        parent, parts = facts, path.split("/")
        for part in parts[:-1]:
            parent = parent[part]
        if value is None and len(parts) > 1:
            parent.pop(parts[-1])
        else:
            parent[parts[-1]] = value
    facts.pop("unknown")
    known = json.loads(text_of(name))["facts"]["unknown"]
    facts["unknown"] = {path: known.get(path, "changed by a test") for path in null_paths(facts)}
    return read_facts(json.dumps({"facts": facts}))


def module(version: str | None = "1.0", *, visible: bool = True, system: bool = False) -> dict[str, Any]:
    return {"version": version, "visible": visible, "system": system}


def configured(
    *providers: str, sources: tuple[str, ...] = ("rtsp",), elements: tuple[str, ...] = ()
) -> dict[str, Any]:
    """A configuration with one model, `people`."""
    return {
        "path": "site.yaml",
        "providers": {"people": list(providers)},
        "sources": list(sources),
        "elements": list(elements),
        "is_device": True,
    }


def opened(
    *requested: str, effective: str = "", degraded: str = "", error: str = "", backend: str = "onnxruntime"
) -> dict[str, Any]:
    """What became of opening it."""
    return {
        "people": {
            "requested": list(requested),
            "effective": effective,
            "backend": backend if effective else "",
            "version": "1.2.3" if effective else "",
            "degraded": degraded,
            "error": error,
            "seconds": 1.5,
        }
    }
