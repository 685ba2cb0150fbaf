"""Whether a model fits: the terms, the budget of a Jetson and of a card, and the sentence."""

from pathlib import Path
from typing import Any

import pytest

from edge_runtime.engines.errors import DoesNotFit
from edge_runtime.engines.facts import MachineFacts
from edge_runtime.engines.memory import (
    MemoryBudget,
    MemoryPlan,
    Term,
    build_terms,
    load_terms,
    read_budget,
    side_by_side,
)
from edge_runtime.engines.recipe import EngineRecipe, Profile, TensorDeclaration
from edge_runtime.engines.wanted import MIB

ORIN = MachineFacts(gpu="Orin", sm="8.7", tensorrt="10.3.0")


def recipe(**changes: Any) -> EngineRecipe:
    fields: dict[str, Any] = {
        "weights_sha256": "0" * 64,
        "machine": ORIN,
        "inputs": (TensorDeclaration(name="x", dtype="float32", shape=(None, 3, 64, 64)),),
        "outputs": (TensorDeclaration(name="y", dtype="float16", shape=(None, 100)),),
        "profiles": (
            Profile(input="x", minimum=(1, 3, 64, 64), optimum=(1, 3, 64, 64), maximum=(4, 3, 64, 64)),
        ),
        "batch": 4,
        "workspace_bytes": 1 << 20,
    }
    return EngineRecipe(**fields | changes)


class Card:
    """A device that only tells its memory."""

    def memory(self) -> tuple[int, int]:
        return 3 << 30, 8 << 30


def test_buffers_are_those_of_the_largest_batch_and_twice_where_the_memory_is_one() -> None:
    one = 4 * 3 * 64 * 64 * 4 + 4 * 100 * 2
    card = {t.name: t.nbytes for t in load_terms(recipe(), 10 * MIB, 5 * MIB, in_flight=2, shared=False)}
    assert card == {"weights": 10 * MIB, "activations and workspace": 5 * MIB, "buffers": 2 * one}
    jetson = {t.name: t.nbytes for t in load_terms(recipe(), 10 * MIB, 5 * MIB, in_flight=2, shared=True)}
    assert jetson["buffers"] == 4 * one


def test_rows_that_nobody_declares_are_counted_generously() -> None:
    rows = recipe(outputs=(TensorDeclaration(name="y", dtype="float32", shape=(None, None, 6)),))
    (buffers,) = (t for t in load_terms(rows, 0, 0, in_flight=1, shared=False) if t.name == "buffers")
    assert buffers.nbytes == 4 * 3 * 64 * 64 * 4 + 4 * 10_000 * 6 * 4


def test_what_fits_and_what_does_not() -> None:
    terms = (Term("weights", 300 * MIB), Term("activations and workspace", 200 * MIB))
    budget = MemoryBudget(800 * MIB, 8000 * MIB, shared=True)
    MemoryPlan("the model m", terms, budget, 300 * MIB).require()
    with pytest.raises(DoesNotFit) as caught:
        MemoryPlan("the model m", terms, budget, 301 * MIB).require()
    assert str(caught.value) == (
        "the model m needs 500 MiB (weights 300, activations and workspace 200) and 301 MiB must stay free, but "
        "only 800 of 8000 MiB of the memory that processor and GPU share are free: use a smaller model, or lower "
        "engines.memory_reserve_mib"
    )


def test_two_models_side_by_side_are_planned_together() -> None:
    old, new = (Term("weights", 3 * MIB),), (Term("weights", 4 * MIB), Term("buffers", MIB))
    both = side_by_side((("v1", old), ("v2", new)))
    assert [(term.name, term.nbytes // MIB) for term in both] == [
        ("weights of v1", 3),
        ("weights of v2", 4),
        ("buffers of v2", 1),
    ]
    plan = MemoryPlan("the exchange", both, MemoryBudget(7 * MIB, 9 * MIB, shared=False), 0)
    assert not plan.fits
    assert "weights of v1 3, weights of v2 4, buffers of v2 1" in plan.sentence


def test_a_build_needs_its_weights_twice_and_its_workspace() -> None:
    assert sum(term.nbytes for term in build_terms(10 * MIB, 512 * MIB)) == 532 * MIB


def test_a_card_is_asked_itself(tmp_path: Path) -> None:
    assert read_budget(Card(), root=tmp_path) == MemoryBudget(3 << 30, 8 << 30, shared=False)  # type: ignore[arg-type]


def test_on_a_jetson_the_kernel_says_what_can_be_had(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "nv_tegra_release").write_text("# R36 (release), REVISION: 4.3, GCID: 1\n")
    (tmp_path / "proc").mkdir()
    meminfo = tmp_path / "proc" / "meminfo"
    meminfo.write_text(
        "MemTotal:        7620000 kB\nMemFree:          100000 kB\nMemAvailable:    2000000 kB\n"
    )
    budget = read_budget(Card(), root=tmp_path)  # type: ignore[arg-type]
    assert budget == MemoryBudget(2_000_000 << 10, 7_620_000 << 10, shared=True)
    meminfo.write_text("MemTotal: 1 kB\n")
    assert not read_budget(Card(), root=tmp_path).shared, "a kernel that does not say: the device is asked"  # type: ignore[arg-type]
