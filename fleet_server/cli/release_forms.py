"""How `fleet release` shows the terms of a release, and what somebody is about to sign."""

from typing import TYPE_CHECKING, Any

from fleet_server.cli.output import size, when

if TYPE_CHECKING:
    from fleet_server.releases.proposal import Proposal
    from fleet_server.releases.review import Reviewed

_NO_BOUNDS = {"at_least": None, "below": None}
_SHOWN_LABELS = 12


def review_lines(proposal: "Proposal", reviewed: "Reviewed") -> list[str]:
    """What a proposal would do, line by line."""
    from fleet_server.releases.repository import terms_of

    lines = []
    for path, target in reviewed.changes.added.items():
        lines += [f"new         {path}, bundle sha256 {target.hashes['sha256']}"]
        lines += terms_lines(terms_of(target).model_dump(mode="json"))
    lines += [f"taken out   {path}: {proposal.reason}" for path in reviewed.changes.removed]
    for path, target in reviewed.changes.revised.items():
        before = None if reviewed.base is None else reviewed.base.releases().get(path)
        old = {} if before is None else terms_of(before).model_dump(mode="json")
        new = terms_of(target).model_dump(mode="json")
        lines.append(f"new terms   {path}, revision {new['revision']}: {proposal.reason}")
        lines += terms_lines(new)
        changed = [name for name in new if name != "revision" and old.get(name) != new[name]]
        lines += [f"was         {name}: {old.get(name)}" for name in changed]
    return lines


def _values(declared: Any) -> list[tuple[str, str]]:
    """What the server may set for single devices, and within which bounds."""
    from edge_runtime.protocol.release_values import DECLARED_VALUES

    return [(name, bounds.words()) for name, bounds in DECLARED_VALUES.validate_python(declared).items()]


def terms_lines(terms: Any) -> list[str]:
    """The terms of a release, as JSON has them, line by line."""
    lines = [f"release     {terms['kind']} {terms['name']} {terms['counter']}, {size(terms['total_bytes'])}"]
    if terms["package"]:
        lines.append(f"package     {terms['package']}, licence {terms['licence']}")
        labels = ", ".join(terms["labels"][:_SHOWN_LABELS]) + (
            " ..." if len(terms["labels"]) > _SHOWN_LABELS else ""
        )
        lines.append(
            f"labels      {len(terms['labels'])}: {labels}{'; RELABELS' if terms['relabels'] else ''}"
        )
    if terms["accepts_drop"]:
        lines.append(f"WORSE       and meant: {terms['accepts_drop']}")
    fit = {name: value for name, value in terms["fit"].items() if value and value != _NO_BOUNDS}
    lines.append(f"for         {fit or 'every device'}")
    for opening in terms["openings"]:
        start = "at once" if not opening["not_before_ms"] else f"from {when(opening['not_before_ms'])} UTC"
        lines.append(f"open        {opening['basis_points'] / 100:g} % {start}")
    lines += [f"value       {name}: {text}" for name, text in _values(terms["values"])]
    back = ", ".join(sha256[:12] for sha256 in terms["rollback_to"]) or "nothing"
    lines.append(f"back to     {back}")
    if terms["notes"]:
        lines.append(f"notes       {terms['notes']}")
    return lines
