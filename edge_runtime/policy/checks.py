"""What one field of a policy alone cannot say: names that must exist, permits that could never let anything go.

The checks read plain data, so that they run, and list everything, when some other field is wrong.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edge_runtime.protocol.vocabulary import DataClass

Finding = tuple[tuple[str | int, ...], str]
"""Keys and indexes from the top of the file, and a sentence."""

_CLASSES = [item.value for item in DataClass if item is not DataClass.UNKNOWN]


def policy_problems(data: Any) -> Iterator[Finding]:
    """Every contradiction in the data of one policy; what is not of the expected type is passed over."""
    recipients = _mapping(_mapping(data).get("recipients"))
    first: dict[str, int] = {}
    for index, raw in enumerate(_list(_mapping(data).get("permits"))):
        permit, at = _mapping(raw), ("permits", index)
        name = permit.get("name")
        if isinstance(name, str):
            if name in first:
                yield (
                    (*at, "name"),
                    f"{name} is the name of permits[{first[name]}] already; names must differ",
                )
            first.setdefault(name, index)
        yield from _recipients_of(at, permit, recipients)


def _recipients_of(
    at: tuple[str | int, ...], permit: Mapping[str, Any], recipients: Mapping[str, Any]
) -> Iterator[Finding]:
    named = [name for name in _list(permit.get("to")) if isinstance(name, str)]
    unknown = [(index, name) for index, name in enumerate(named) if name not in recipients]
    for index, name in unknown:
        known = ", ".join(sorted(recipients)) or "none yet"
        yield (*at, "to", index), f"there is no recipient named {name}; recipients are {known}"
    for index, name in enumerate(named):
        if name in named[:index]:
            yield (*at, "to", index), f"{name} is listed twice"
    if unknown or not named:
        return
    sections = [_mapping(recipients[name]) for name in named]
    purpose = permit.get("purpose")
    if isinstance(purpose, str) and not any(
        purpose in _list(section.get("purposes")) for section in sections
    ):
        yield (
            (*at, "purpose"),
            f"no recipient of this permit takes the purpose {purpose}: it would hold everything",
        )
    classes = _list(_mapping(permit.get("when")).get("classes"))
    accepted = {
        item for section in sections for item in _list(section.get("accepts")) if isinstance(item, str)
    }
    # A class that is none is found where the field is checked; once is enough.
    if classes and all(item in _CLASSES for item in classes) and not accepted.intersection(classes):
        yield (
            (*at, "when", "classes"),
            f"no recipient of this permit accepts {' or '.join(classes)}: it would hold everything",
        )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()
