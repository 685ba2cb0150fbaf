"""What the doctor says about boards that nobody has here, by facts that others published."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from edge_runtime.doctor import exit_code, judge, screen_lines
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
