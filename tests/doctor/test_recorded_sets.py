"""What the doctor says about boards that nobody has here, by facts that others published."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from edge_runtime.doctor import exit_code, judge, read_facts, screen_lines
from edge_runtime.errors import ConfigError
from tests.doctor.recorded import FOLDER, NAMES, facts_of, text_of

SAID = {
    "orin_nano_jetpack_6_2": (0, "note", "the power mode is 15W, which is slower than this board can be"),
    "agx_orin_jetpack_6_0": (
        0,
        "warning",
        "JetPack 6.0 (L4T 36.3.0) has TensorRT 8.6, which this runtime",
    ),
    "agx_orin_jetpack_7_2": (1, "error", "no model can run here without numpy and opencv"),
    "thor_jetpack_7_0": (0, "warning", "cuda-bindings 12.9.10 is for CUDA 12, and this machine has CUDA 13"),
    "thor_jetpack_7_1": (0, "warning", "TensorRT's Python module is on this system but not in this virtual"),
    "x86_64_with_gpu": (0, "ok", "TensorRT 11.4.0.106 is installed for this Python"),
    "x86_64_without_gpu": (
        0,
        "note",
        "there is no NVIDIA GPU, or its driver is not loaded: models run on the CPU",
    ),
}
"""Exit code, and the sentence for which the set is there; NAME.txt beside the facts has all that is printed."""


def test_every_set_is_judged() -> None:
    assert set(NAMES) == set(SAID)
    assert set(NAMES) == {path.stem for path in FOLDER.glob("*.txt")}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_of_a_set(name: str) -> None:
    facts = facts_of(name)
    found = judge(facts)
    code, severity, words = SAID[name]
    assert [item.severity for item in found if words in item.text] == [severity]
    assert exit_code(found) == code
    assert screen_lines(facts, found) == (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", NAMES)
def test_a_set_fits_a_screen_of_80_columns(name: str) -> None:
    facts = facts_of(name)
    assert max(map(len, screen_lines(facts, judge(facts)))) <= 80


@pytest.mark.parametrize("name", NAMES)
def test_every_value_of_a_set_says_where_it_is_from(name: str) -> None:
    record = json.loads(text_of(name))
    sources = record["sources"]
    for path in leaves({key: value for key, value in record["facts"].items() if key != "unknown"}):
        assert any(not key or path == key or path.startswith(f"{key}.") for key in sources), path


def leaves(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else key)
    elif value is not None:
        yield path


ODD_TEXT = (
    "", " ", "0", "-1", "36", "36.", "36.4.3.2.1", "v10", "10.3", "8.7.1", "NaN", "99.1.0", "12.x", "aarch64",
    "10.3.0.26+cuda", "\u00fc" * 300, "6.2\u202e", "a\x1b[2Jb\nc",
)  # fmt: skip
ODD_NUMBERS = (0, 1, -1, 0.5, 2**62, 2**63 - 1, 2**63, 10**30)
ODD_VALUES: tuple[Any, ...] = ([], {}, True, "x", 1, None, [[1]], {"a": {}})


def places(value: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where something stands in nested objects."""
    if at:
        yield at
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*at, key))


def spoil(facts: dict[str, Any], chance: random.Random) -> None:
    """Change one thing, as a board that nobody has seen may, or a file that somebody edited."""
    at = chance.choice([place for place in places(facts) if place[0] != "unknown"])
    holder: Any = facts
    for name in at[:-1]:
        holder = holder[name]
    path, old = ".".join(at), holder[at[-1]]
    kind = chance.choice(["unknown", "text", "text", "number", "gone", "more", "kind"])
    if kind == "unknown":
        for told in [one for one in facts["unknown"] if one == path or one.startswith(f"{path}.")]:
            del facts["unknown"][told]
        holder[at[-1]], facts["unknown"][path] = None, chance.choice(ODD_TEXT)
    elif kind == "text" and (old is None or isinstance(old, str)):
        facts["unknown"].pop(path, None)
        holder[at[-1]] = chance.choice(ODD_TEXT)
    elif kind == "number" and isinstance(old, (int, float)):
        holder[at[-1]] = chance.choice(ODD_NUMBERS)
    elif kind == "gone":
        del holder[at[-1]]
    elif kind == "more" and isinstance(old, dict):
        old[chance.choice(ODD_TEXT)] = chance.choice([*old.values(), "x"])
    elif kind == "kind":
        holder[at[-1]] = chance.choice(ODD_VALUES)


@pytest.mark.parametrize("name", NAMES)
def test_a_set_that_is_partial_or_wrong_is_judged_or_refused_in_a_sentence(name: str) -> None:
    chance, refused, judged = random.Random(name), list[str](), 0
    for number in range(200):
        record = json.loads(text_of(name))
        for _ in range(1 + number % 3):
            spoil(record["facts"], chance)
        text = json.dumps(record)
        try:
            facts = read_facts(text if number % 10 else text[: chance.randrange(len(text))])
        except ConfigError as error:
            refused.append(str(error))
            continue
        found = judge(facts)
        judged += 1
        assert exit_code(found) in (0, 1)
        for line in screen_lines(facts, found):
            assert len(line) <= 80, line
            assert line.isprintable(), line
    assert not [text for text in refused if "\n" in text or len(text) > 350]
    assert min(len(refused), judged) > 20
