"""What is known about a file besides its graph: licence, date, quantisation, a name for the package."""

import re
from collections.abc import Mapping
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Final, Literal

from edge_runtime.authoring.findings import Finding, guess, sure
from edge_runtime.authoring.graph import GraphFacts
from edge_runtime.errors import PackageError
from edge_runtime.packages.manifest import PERMISSIVE_LICENCES, Licence

Quantisation = Literal["none", "fp16", "int8-dynamic", "int8-qdq"]

UNKNOWN_LICENCE: Final = "NOASSERTION"
"""SPDX for: nobody said."""

_DYNAMIC: Final = frozenset({"ConvInteger", "MatMulInteger", "DynamicQuantizeLinear"})
_STATIC: Final = frozenset({"QLinearConv", "QLinearMatMul", "QuantizeLinear", "DequantizeLinear"})

_YOLOV5_METADATA: Final = frozenset({"stride", "names"})
"""Exactly these two are written by ultralytics/yolov5's export.py."""


def find_licence(
    graph: GraphFacts, given: str | None, evidence: str | None = None
) -> tuple[Licence, Finding]:
    """The licence of the weights, from a person or the metadata, or loudly unknown.

    Raises:
        PackageError: the given licence is no SPDX id.
    """
    if given is not None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+-]{1,63}", given):
            raise PackageError(f"{given!r} is not an SPDX licence id like Apache-2.0 or MIT")
        stated_by = evidence or "stated by the person who imported the file"
        licence = Licence(spdx=given, evidence=stated_by[:512])
        return licence, sure("licence", given, licence.evidence)
    stated = f"{graph.metadata.get('license', '')} {graph.metadata.get('licence', '')}".strip()
    if stated:
        spdx = _spdx(stated)
        licence = Licence(spdx=spdx, evidence=f"the file's metadata say: {stated[:200]}")
        return licence, (sure if spdx != UNKNOWN_LICENCE else guess)("licence", spdx, licence.evidence)
    author = graph.metadata.get("author", "")
    if "ultralytics" in author.lower():
        licence = Licence(spdx="AGPL-3.0", evidence="the file's metadata name Ultralytics as the author")
        return licence, sure("licence", licence.spdx, licence.evidence)
    if graph.metadata.keys() == _YOLOV5_METADATA:
        licence = Licence(spdx="AGPL-3.0", evidence="the metadata are those that ultralytics/yolov5 writes")
        return licence, guess("licence", licence.spdx, licence.evidence)
    licence = Licence(spdx=UNKNOWN_LICENCE, evidence="the file says nothing about its licence")
    return licence, guess(
        "licence", UNKNOWN_LICENCE, "the file says nothing: find out and state it with --licence SPDX"
    )


def _spdx(stated: str) -> str:
    for known in (*sorted(PERMISSIVE_LICENCES), "AGPL-3.0", "GPL-3.0", "LGPL-3.0", "MPL-2.0"):
        if re.search(rf"(?<![A-Za-z-]){re.escape(known)}(?![0-9])", stated, re.IGNORECASE):
            return known
    return UNKNOWN_LICENCE


def find_quantisation(graph: GraphFacts) -> tuple[Quantisation, Finding]:
    """How the weights are stored, from the operators and the tensors' types."""
    used = graph.operators.keys()
    kinds: Mapping[Quantisation, str] = {
        "int8-dynamic": "the graph computes with 8-bit integers scaled at run time",
        "int8-qdq": "the graph quantises with fixed scales",
        "fp16": "most weights are 16-bit floats",
        "none": "the weights are 32-bit floats",
    }
    found: Quantisation = "none"
    if used & _DYNAMIC:
        found = "int8-dynamic"
    elif used & _STATIC:
        found = "int8-qdq"
    elif graph.half_precision:
        found = "fp16"
    return found, sure("quantisation", found, kinds[found])


def find_release_date(graph: GraphFacts, path: Path, given: str | None = None) -> tuple[str, Finding]:
    """The day the weights were made, as YYYY-MM-DD.

    Raises:
        PackageError: the given day is none.
    """
    if given is not None:
        try:
            day = date.fromisoformat(given)
        except ValueError as error:
            raise PackageError(f"{given} is not a day like 2026-01-31") from error
        return day.isoformat(), sure("released", day, "stated by the person who imported the file")
    stated = graph.metadata.get("date", "")[:10]
    try:
        day = date.fromisoformat(stated)
    except ValueError:
        changed = datetime.fromtimestamp(path.stat().st_mtime, tz=timezone.utc).date()
        return changed.isoformat(), guess("released", changed, "the day the file was last changed")
    return day.isoformat(), sure("released", day, "from the model's metadata")


def slug(text: str) -> str:
    """A package name: lower case letters, digits, dots, dashes and underscores."""
    lowered = re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")
    return lowered[:64].rstrip("-._") or "model"
