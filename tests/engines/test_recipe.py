"""Keys: what differs in anything never shares one, and a key is the same in every release of Python."""

import json
import random
import string
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from edge_runtime.engines import EngineRecipe, MachineFacts, Profile, TensorDeclaration, differences
from edge_runtime.engines.recipe import canonical_json
from tests.rigs.engine_files import ORIN, THOR, another, recipe_for

GOLDEN_KEY = "7475146227553090aee4477f9efef6a42a9be66b2b1f2fd3f104d444a6da0e30"

SHA = st.binary(min_size=32, max_size=32).map(bytes.hex)
WORD = st.text(string.ascii_letters + string.digits + " ._-(),:/", min_size=1, max_size=12)
NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
EXTENT = st.integers(0, (1 << 31) - 1)
VERSION = st.lists(st.integers(0, 99), min_size=3, max_size=4).map(lambda parts: ".".join(map(str, parts)))
MACHINE = st.builds(
    MachineFacts,
    gpu=WORD,
    sm=st.tuples(st.integers(5, 12), st.integers(0, 9)).map(lambda pair: f"{pair[0]}.{pair[1]}"),
    tensorrt=VERSION,
    l4t=st.none() | VERSION,
    driver=st.none() | WORD,
)
TENSOR = st.builds(
    TensorDeclaration,
    name=NAME,
    dtype=st.sampled_from(["float32", "float16", "uint8", "int64"]),
    shape=st.lists(st.none() | EXTENT, max_size=4).map(tuple),
)
PROFILE = st.builds(
    lambda name, shapes: Profile(
        input=name,
        minimum=tuple(min(one) for one in shapes),
        optimum=tuple(sorted(one)[1] for one in shapes),
        maximum=tuple(max(one) for one in shapes),
    ),
    NAME,
    st.lists(st.tuples(EXTENT, EXTENT, EXTENT), min_size=1, max_size=4),
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "weights_sha256": SHA,
    "machine": MACHINE,
    "precision": st.sampled_from(["as-exported", "fp16", "int8-qdq"]),
    "inputs": st.lists(TENSOR, min_size=1, max_size=2).map(tuple),
    "outputs": st.lists(TENSOR, min_size=1, max_size=3).map(tuple),
    "workspace_bytes": st.integers(0, (1 << 63) - 1),
    "external": st.dictionaries(NAME, SHA, max_size=2),
    "profiles": st.lists(PROFILE, max_size=2).map(tuple),
    "batch": st.integers(1, 4096),
    "flags": st.lists(WORD, max_size=3).map(tuple),
    "plugins": st.dictionaries(NAME, SHA, max_size=2),
    "builder": st.integers(0, (1 << 63) - 1),
    "format": st.integers(0, (1 << 63) - 1),
}
RECIPE = st.builds(EngineRecipe, **FIELDS)


def test_every_field_of_a_recipe_is_drawn() -> None:
    assert set(FIELDS) == set(EngineRecipe.model_fields)


def test_the_key_of_a_known_recipe_is_the_same_for_ever() -> None:
    """The key is in file names on devices: an accidental change would build every engine of a fleet anew."""
    assert recipe_for().key == GOLDEN_KEY


def test_the_canonical_bytes_are_plain() -> None:
    data = recipe_for(external={"b": "1" * 64, "a": "0" * 64}).canonical()
    assert data.isascii()
    assert json.loads(data)["machine"] == {
        "gpu": "Orin", "sm": "8.7", "tensorrt": "10.3.0.26", "l4t": "36.4.3", "driver": "540.4.0"
    }  # fmt: skip
    assert data.index(b'"a"') < data.index(b'"b"')
    assert b" " not in data


@given(RECIPE, st.data())
def test_recipes_that_differ_in_any_field_never_share_a_key(
    recipe: EngineRecipe, data: st.DataObject
) -> None:
    field = data.draw(st.sampled_from(sorted(FIELDS)))
    other = recipe.model_copy(
        update={field: EngineRecipe(**{**vars(recipe), field: data.draw(FIELDS[field])}).__dict__[field]}
    )
    assume(other != recipe)
    assert other.key != recipe.key
    assert {one.field.partition(".")[0] for one in differences(recipe, other)} == {field}


@given(RECIPE, RECIPE)
def test_a_key_is_shared_by_equal_recipes_only(one: EngineRecipe, other: EngineRecipe) -> None:
    assert (one.key == other.key) == (one == other)
    assert bool(differences(one, other)) == (one != other)


@given(RECIPE, st.randoms(use_true_random=False))
def test_the_order_of_fields_says_nothing(recipe: EngineRecipe, order: random.Random) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            pairs = [(name, shuffled(inner)) for name, inner in value.items()]
            order.shuffle(pairs)
            return dict(pairs)
        return [shuffled(inner) for inner in value] if isinstance(value, list) else value

    content = shuffled(recipe.model_dump(mode="json"))
    again = EngineRecipe.model_validate_json(json.dumps(content))
    assert again == recipe
    assert again.key == recipe.key


@given(st.permutations(["TF32", "STRONGLY_TYPED", "VERSION_COMPATIBLE", "TF32"]))
def test_flags_are_a_set(flags: list[str]) -> None:
    assert recipe_for(flags=tuple(flags)).flags == ("STRONGLY_TYPED", "TF32", "VERSION_COMPATIBLE")


def test_two_models_of_one_architecture_have_two_keys() -> None:
    assert another("helmets").key != another("vests").key


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("gpu", "Orin NX"),
        ("sm", "8.6"),
        ("tensorrt", "10.3.0.27"),
        ("l4t", "36.4.4"),
        ("l4t", None),
        ("driver", "x"),
    ],
)
def test_each_fact_of_the_machine_is_in_the_key(field: str, value: str | None) -> None:
    facts: dict[str, Any] = {field: value}
    other = recipe_for(replace(ORIN, **facts))
    assert other.key != recipe_for().key
    assert [one.field for one in differences(recipe_for(), other)] == [f"machine.{field}"]


def test_a_difference_names_both_values() -> None:
    told = [str(one) for one in differences(recipe_for(THOR), recipe_for(ORIN))]
    assert told[0] == "built for SM 8.7, this device has SM 11.0"
    assert "built for TensorRT 10.3.0.26, this device has TensorRT 10.13.3.9" in told
    small = recipe_for(inputs=(TensorDeclaration(name="images", dtype="float32", shape=(1, 3, 320, 320)),))
    assert [str(one) for one in differences(recipe_for(), small)] == [
        "built for inputs images float32 1x3x320x320, wanted is inputs images float32 ?x3x416x416"
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"weights_sha256": "A" * 64},
        {"weights_sha256": "0" * 63},
        {"inputs": ()},
        {"batch": 0},
        {"batch": True},
        {"batch": 1.0},
        {"workspace_bytes": -1},
        {"workspace_bytes": 1 << 63},
        {"precision": "FP16!"},
        {"flags": ("a\nb",)},
        {"machine": MachineFacts(gpu="", sm="8.7", tensorrt="10.3.0")},
        {"machine": MachineFacts(gpu="Orin", sm="87", tensorrt="10.3.0")},
        {"machine": MachineFacts(gpu="Orin", sm="8.7", tensorrt="ten")},
        {"external": {"weights.bin": "no digest"}},
        {"surprise": 1},
    ],
)
def test_what_is_no_recipe_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        recipe_for(**wrong)


@pytest.mark.parametrize("shapes", [((2,), (1,), (3,)), ((1,), (3,), (2,)), ((1,), (1, 1), (1,))])
def test_a_profile_ascends(shapes: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ValidationError, match="does not hold"):
        Profile(input="images", minimum=shapes[0], optimum=shapes[1], maximum=shapes[2])


def test_numbers_that_have_two_spellings_are_refused() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        canonical_json({"scale": float("nan")})
