"""Chooses the head that fits, or refuses with the choices that are left to a person."""

from typing import get_args

from edge_runtime.authoring.signatures.dense import dense_matches
from edge_runtime.authoring.signatures.finished import finished_matches
from edge_runtime.authoring.signatures.maps import map_matches
from edge_runtime.authoring.signatures.observed import Match, Observed, shape_text
from edge_runtime.errors import PackageError
from edge_runtime.packages.manifest import Family

FAMILIES: tuple[str, ...] = get_args(Family)


def recognise_head(observed: Observed, family: str | None = None) -> Match:
    """The one head family that the outputs fit.

    Args:
        observed: outputs of a run.
        family: what a person says it is; the outputs must fit it.

    Raises:
        PackageError: none fits, several do, or the outputs do not fit `family`.
    """
    if family is not None and family not in FAMILIES:
        raise PackageError(f"there is no head family {family}: known are {', '.join(FAMILIES)}")
    matches = [*finished_matches(observed), *dense_matches(observed), *map_matches(observed)]
    if family is not None:
        matches = [match for match in matches if match.head.family == family]
    outputs = ", ".join(f"{name} {shape_text(tensor)}" for name, tensor in observed.outputs.items())
    if not matches:
        wanted = f"the family {family}" if family else "no head family that this runtime knows"
        fits = "do not fit" if family else "fit"
        raise PackageError(
            f"the outputs ({_short(outputs)}) {fits} {wanted}"
            + ("" if family else f" (with --family NAME you can insist on one of {', '.join(FAMILIES)})")
        )
    certain = [match for match in matches if match.certain]
    if len(matches) > 1 and len(certain) != 1:
        names = " or ".join(f"--family {name}" for name in dict.fromkeys(m.head.family for m in matches))
        raise PackageError(
            f"the outputs ({_short(outputs)}) fit several head families: say which with {names}"
        )
    return certain[0] if certain else matches[0]


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"
