"""The bounds of values of single devices: declared by the overlay, signed with the terms, held by the server."""

from pathlib import Path

import pytest

from fleet_server.releases.packing import content_of
from fleet_server.releases.problems import ReleaseRefused
from tests.rigs.release_parties import SignedFleet, configuration, unchecked

OVERLAY = """\
values:
  score: {type: number, minimum: 0.3, maximum: 0.7}
  gate: {type: text, one_of: [north, south]}
models: {people: {score: "${values.score}"}}
cameras: {dock: {rules: [{name: "gate-${values.gate}", kind: zone}]}}
"""


def test_what_the_overlay_declares_is_signed(fleet: SignedFleet, tmp_path: Path) -> None:
    released = fleet.publish(configuration(tmp_path / "c", OVERLAY), name="site")
    assert {name: bounds.words() for name, bounds in released.terms.values.items()} == {
        "score": "a number from 0.3 to 0.7",
        "gate": "one of north, south",
    }
    assert fleet.trusted().releases()[released.target].custom == released.terms.custom()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('models: {people: {score: "${values.score}"}}\n', r"\$\{values.score\} is used and not declared"),
        ("values: {score: {type: number}}\n", "a minimum and a maximum that is not below it"),
        ("values: {score: {type: number, minimum: 2, maximum: 1}}\n", "a maximum that is not below it"),
        ("values: {score: {type: number, minimum: 0, one_of: [1]}}\n", "minimum and maximum, or one_of"),
        ("values: {score: {type: number, minimum: .nan, maximum: 1}}\n", "finite number"),
        ("values: {score: {type: colour}}\n", "values.score: "),
        ("values: {gate: {type: text}}\n", "one_of"),
        ('values: {gate: {type: text, one_of: ["${env:PATH}"]}}\n', "pattern"),
        ("values: {score: {type: switch}}\nmodels: {}\n", "declared and used nowhere"),
        ("values: [score]\n", "values is a table"),
        ("values: false\n", "values is a table"),
        ("values: {score: {type: number, minimum: true, maximum: 2}}\n", "minimum: a number is needed"),
        ('values: {score: {type: number, one_of: ["0.5"]}}\n', "one_of.0: a number is needed"),
        ("values: {score: {type: integer, minimum: 0, maximum: true}}\n", "maximum: .* valid integer"),
        ("values: {score: {type: integer, one_of: [1.0]}}\n", "one_of.0: .* valid integer"),
        ("values: {gate: {type: text, one_of: [1]}}\n", "one_of.0: .* valid string"),
    ],
)
def test_a_declaration_that_is_none_is_not_packed(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ReleaseRefused, match=sentence) as refused:
        content_of(configuration(tmp_path / "c", text), "site")
    assert "\n" not in str(refused.value)


def test_labels_may_use_a_value_too(tmp_path: Path) -> None:
    folder = configuration(tmp_path / "c", "values: {gate: {type: text, one_of: [north]}}\n")
    (folder / "labels.json").write_text('{"person": "person at ${values.gate}"}')
    assert set(content_of(folder, "site").values) == {"gate"}


def test_the_server_looks_for_itself(fleet: SignedFleet, tmp_path: Path) -> None:
    """Whoever signed had another tool: bounds that the overlay does not have, or none."""
    folder = configuration(tmp_path / "c", OVERLAY)
    declared = content_of(folder, "site").values
    wide = declared["score"].model_copy(update={"maximum": 1e9})
    for values in ({}, {**declared, "score": wide}, {"score": declared["score"]}):
        content = unchecked(folder, "site", values)
        with pytest.raises(ReleaseRefused, match="are not those that its overlay"):
            fleet.submit(fleet.signed(fleet.propose(content)), content)
    assert fleet.trusted().releases() == {}
    content = unchecked(folder, "site", declared)
    assert fleet.submit(fleet.signed(fleet.propose(content)), content).state == "published"
