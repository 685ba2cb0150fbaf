"""Which JetPack a release of L4T belongs to, and what it brings.

Releases and versions: jetson_stats' table of variables, the JetPack page of Torch-TensorRT, jetson-containers'
CUDA configurations; 39.2.1 as JetPack 7.2.1 by owners' notes. The archive of releases has gaps, so that a release
between two known ones is read as its family (`36.4`), never refused.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JetPack:
    """One JetPack.

    Attributes:
        name: like `6.2.1`; a family's has `.x` where the release is not listed.
        python: of its Ubuntu.
        cuda, tensorrt: versions that it brings, as far as they are known.
        usable: whether this runtime uses its TensorRT.
    """

    name: str
    python: str
    cuda: str
    tensorrt: str
    usable: bool = True


_RELEASES = {
    "36.3.0": "6.0",
    "36.4.0": "6.1",
    "36.4.3": "6.2",
    "36.4.4": "6.2.1",
    "36.4.7": "6.2.1",
    "36.5.0": "6.2.2",
    "38.2.0": "7.0",
    "38.2.1": "7.0",
    "38.2.2": "7.0",
    "38.4.0": "7.1",
    "39.2.0": "7.2",
    "39.2.1": "7.2.1",
}

FAMILIES = {
    "36.3": JetPack("6.0", "3.10", "12.2", "8.6", usable=False),
    "36.4": JetPack("6.1 or 6.2", "3.10", "12.6", "10.3"),
    "36.5": JetPack("6.2.x", "3.10", "12.6", "10.3"),
    "38.2": JetPack("7.0", "3.12", "13.0", "10.13"),
    "38.4": JetPack("7.1", "3.12", "13.0", "10.13"),
    "39.2": JetPack("7.2.x", "3.12", "13.2", "10.16"),
}

OLDEST_MAJOR = 36
"""L4T before 36 is JetPack 5 and older: Python 3.8, TensorRT 8."""


def jetpack_of(l4t: str) -> JetPack | None:
    """The JetPack of a release like `36.4.3`; None where it is not known."""
    family = FAMILIES.get(".".join(l4t.split(".")[:2]))
    if family is None:
        return None
    name = _RELEASES.get(l4t, family.name)
    return JetPack(name, family.python, family.cuda, family.tensorrt, family.usable)


def is_too_old(l4t: str) -> bool:
    """Whether the release is of JetPack 5 or older."""
    major = l4t.split(".", maxsplit=1)[0]
    return major.isdecimal() and int(major) < OLDEST_MAJOR


def numbers(version: str) -> tuple[int, ...]:
    """`10.3.0.30-1+cuda12.5` as (10, 3, 0, 30); empty where it does not begin with a number."""
    found: list[int] = []
    for part in version.split("-", maxsplit=1)[0].split("+", maxsplit=1)[0].split("."):
        if not part.isdecimal() or not part.isascii() or len(part) > 9:
            break
        found.append(int(part))
    return tuple(found)
