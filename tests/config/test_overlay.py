"""Overlays of releases: what they may set, with the device's own values, and every reason why not as a sentence."""

import copy
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from edge_runtime.config import InvalidConfig, LoadedConfig, Location, load_config, read_overlay
from edge_runtime.config.overlay import Overlay, lay_over
from edge_runtime.document import Document
from tests.conftest import REPOSITORY

OWN = """\
device: {name: north}
models:
  people: {package: models/people, score: 0.4}
  cars: {package: models/cars}
cameras:
  dock:
    source: {kind: file, path: clip.mp4}
    model: people
    rules:
      - {name: gate, kind: zone, labels: [person]}
  yard:
    source: {kind: rtsp, url: "rtsp://viewer:${env:YARD}@cam.example/1"}
    model: cars
delivery: {}
"""
ENVIRONMENT = {"YARD": "hunter22", "OTHER": "secret-of-the-device"}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "site.yaml"
    path.write_text(OWN)
    return path


def overlay(folder: Path, text: str, **values: str | float | bool) -> Overlay:
    folder = folder / "release"
    folder.mkdir(exist_ok=True)
    (folder / "overlay.yaml").write_text(text)
    return read_overlay(folder, values)


def laid(own: Path, text: str, **values: str | float | bool) -> LoadedConfig:
    return load_config(own, ENVIRONMENT, overlay(own.parent, text, **values))


def refused(own: Path, text: str, **values: str | float | bool) -> list[str]:
    with pytest.raises(InvalidConfig) as caught:
        laid(own, text, **values)
    return [line.replace(f"{own.parent}/", "") for line in caught.value.lines()]


def test_thresholds_rules_and_names(own: Path) -> None:
    before = own.read_bytes()
    found = laid(
        own,
        "models: {people: {score: 0.6, nms_iou: 0.5}}\n"
        "cameras: {dock: {rules: [{name: busy, kind: occupancy, at_least: 4}]}}\n"
        "events: {labels: {person: human}}\n",
    )
    plain = load_config(own, ENVIRONMENT)
    assert (found.config.models["people"].score, found.config.models["people"].nms_iou) == (0.6, 0.5)
    assert [rule.name for rule in found.config.cameras["dock"].rules] == ["busy"]
    assert found.config.events.labels == {"person": "human"}
    after, others = found.config.model_dump(), plain.config.model_dump()
    for data in (after, others):
        del data["models"]["people"]["score"], data["models"]["people"]["nms_iou"]
        del data["cameras"]["dock"]["rules"], data["events"]["labels"]
    assert after == others
    assert own.read_bytes() == before, "the device's own file is never written"


def test_the_digest_is_of_both_together(own: Path) -> None:
    plain = load_config(own, ENVIRONMENT).digest
    one, same, other = (
        laid(own, "models: {people: {score: '${values.score}'}}", score=score).digest
        for score in (0.6, 0.6, 0.7)
    )
    assert plain != one == same != other
    assert laid(own, "models: {people: {score: 0.4}}").digest == plain, "what changes nothing is no change"


def test_every_model_and_every_camera(own: Path) -> None:
    found = laid(
        own,
        'models: {"*": {score: 0.7}, cars: {score: 0.2}}\n'
        'cameras: {"*": {rules: [{name: any, kind: count, at_least: 2, window: 5}]}}\n',
    ).config
    assert (found.models["people"].score, found.models["cars"].score) == (0.7, 0.2)
    assert [[rule.name for rule in camera.rules] for camera in found.cameras.values()] == [["any"], ["any"]]


def test_values_of_the_device(own: Path) -> None:
    text = (
        "models: {people: {score: '${values.score}'}}\n"
        "cameras: {dock: {rules: [{name: 'gate-${values.gate}', kind: occupancy, at_least: '${values.many}',"
        " evidence: '${values.keep}'}]}}\n"
        "events: {labels: {person: 'costs $${3} ${values.night}'}}\n"
    )
    found = laid(own, text, score=0.55, gate="north", many=3, keep=False, night=True).config
    rule = found.cameras["dock"].rules[0]
    assert (found.models["people"].score, rule.name, rule.evidence) == (0.55, "gate-north", False)
    assert rule.model_dump()["at_least"] == 3
    assert found.events.labels == {"person": "costs ${3} true"}


@pytest.mark.parametrize(
    "text",
    [
        "device: {name: other}",
        "models: {people: {package: /tmp/evil}}",
        "models: {people: {providers: [cuda]}}",
        "models: {people: {accept_licences: [AGPL-3.0]}}",
        "cameras: {dock: {source: {kind: rtsp, url: 'rtsp://evil.example/1'}}}",
        "cameras: {dock: {source: {password: x}}}",
        "cameras: {dock: {model: cars}}",
        "cameras: {dock: {masks: []}}",
        "cameras: {dock: {data_class: public}}",
        "events: {file: /etc/passwd}",
        "events: {max_bytes: 65536}",
        "evidence: {directory: /}",
        "delivery: {policy: /tmp/evil.yaml}",
        "delivery: {broker: evil.example}",
        "guard: {profile: soft.yaml}",
        "engines: {directory: /}",
        "updates: {enabled: false}",
        "logging: {level: debug}",
        "version: 2",
        "anything: 1",
    ],
)
def test_nothing_else_may_be_set(own: Path, text: str) -> None:
    lines = refused(own, text)
    assert len(lines) == 1
    assert "is nothing that a release may set" in lines[0]
    assert lines[0].startswith("release/overlay.yaml:1: ")


def test_every_problem_with_its_own_file_and_line(own: Path) -> None:
    lines = refused(
        own,
        "models:\n"
        "  people: {score: 7}\n"
        "cameras:\n"
        "  dock:\n"
        "    rules:\n"
        "      - {name: a, kind: zone, polygon: [[0, 0], [1, 1]]}\n"
        "      - {name: a, kind: dwell}\n",
    )
    assert [line.split(": ")[0] for line in lines] == [
        "release/overlay.yaml:2",
        "release/overlay.yaml:6",
        "release/overlay.yaml:7",
        "release/overlay.yaml:7",
    ]
    assert "models.people.score" in lines[0]
    assert "needs at least 3 points" in lines[1]


def test_a_problem_of_the_devices_own_file_is_its_own(own: Path) -> None:
    own.write_text(OWN + "nonsense: 1\n")
    assert refused(own, "models: {people: {score: 0.5}}")[0].startswith("site.yaml:15: nonsense")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models: {boats: {score: 0.5}}", "this device has no model of that name; it has people, cars"),
        ("cameras: {roof: {rules: []}}", "this device has no camera of that name; it has dock, yard"),
        ("models: [1]", "must be a section, not a list"),
        ("cameras: {dock: 3}", "must be a section, not"),
        ("events: {labels: [person]}", "events.labels"),
        ("models: {people: {score: '${values.score}'}}", "this device was assigned no value score"),
        ("models: {people: {score: '${env:OTHER}'}}", "is no reference of a release"),
        ("events: {labels: {person: 'x${file:/etc/hostname}'}}", "is no reference of a release"),
        ("events: {labels: {person: '${values.open'}}", "is no reference of a release"),
        ("events: {labels: {person: '${values.Name}'}}", "is no reference of a release"),
    ],
)
def test_refusals_in_words(own: Path, text: str, said: str) -> None:
    lines = refused(own, text)
    assert any(said in line for line in lines), lines
    assert "secret-of-the-device" not in "".join(lines)


def test_no_value_reads_a_secret(own: Path) -> None:
    """Values are signed by the server alone: a stolen one must not have a device's secrets put into events."""
    text = "events: {labels: {person: '${values.name}'}}"
    for value in ("${env:OTHER}", "a ${file:/etc/hostname}", "$${env:OTHER}"):
        assert "holds a $" in refused(own, text, name=value)[0]


@pytest.mark.parametrize("said", ["${values.site}${values.zone}", "${values.site}{env:OTHER}"])
def test_no_two_values_make_a_reference_together(own: Path, said: str) -> None:
    """Each is harmless alone; what stands there once both are put in would be read as a device's secret."""
    lines = refused(own, f"events: {{labels: {{person: '{said}'}}}}", site="$", zone="{env:OTHER}")
    assert "the value site of this device holds a $" in lines[0]


def test_the_guards_deadline_stays(own: Path) -> None:
    rules = "cameras: {dock: {rules: [{name: gate, kind: zone, deadline: %s}]}}"
    assert laid(own, rules % 1).config.cameras["dock"].rules[0].deadline == 1
    for deadline in (0.2, 5):
        assert "the guard goes by 1 s" in refused(own, rules % deadline)[0]
    own.write_text(OWN.replace("delivery: {}\n", ""))
    assert laid(own, rules % 5).config.cameras["dock"].rules[0].deadline == 5, "no guard, no device"


def test_labels_may_come_in_a_file_of_their_own(own: Path) -> None:
    folder = own.parent / "release"
    folder.mkdir()
    (folder / "overlay.yaml").write_text("{}\n")
    (folder / "labels.json").write_text(json.dumps({"person": "Mensch", "car": "Auto"}))
    found = load_config(own, ENVIRONMENT, read_overlay(folder))
    assert found.config.events.labels == {"person": "Mensch", "car": "Auto"}
    (folder / "overlay.yaml").write_text("events: {labels: {person: human}}\n")
    with pytest.raises(InvalidConfig, match=r"labels.json: .*only one may name labels"):
        read_overlay(folder)


@pytest.mark.parametrize("name", ["run.sh", "policy.yml", "sub/overlay.yaml", "site.yaml"])
def test_files_of_no_configuration(own: Path, name: str) -> None:
    folder = own.parent / "release"
    (folder / name).parent.mkdir(parents=True)
    (folder / "overlay.yaml").write_text("{}\n")
    (folder / name).write_text("{}\n")
    with pytest.raises(InvalidConfig, match="is no file of a configuration's release"):
        read_overlay(folder)


@pytest.mark.parametrize(
    "data", [b"", b"- 1\n", b"\xff\xfe", b"a: 1\na: 2\n", b"a: &a [*a]\n", b"x" * 1_100_000]
)
def test_an_overlay_that_cannot_be_read(own: Path, data: bytes) -> None:
    folder = own.parent / "release"
    folder.mkdir()
    (folder / "overlay.yaml").write_bytes(data)
    with pytest.raises(InvalidConfig):
        read_overlay(folder)
    (folder / "overlay.yaml").unlink()
    with pytest.raises(InvalidConfig):
        read_overlay(folder)


def test_the_example_of_the_page_is_one(own: Path) -> None:
    page = (REPOSITORY / "docs" / "configuration-releases.md").read_text(encoding="utf-8")
    example = page.split("```yaml\n", 1)[1].split("```", 1)[0]
    found = laid(own, example, score=0.3, gate="north").config
    assert (found.models["people"].score, found.models["cars"].score) == (0.45, 0.3)
    assert [rule.name for rule in found.cameras["dock"].rules] == ["gate-north"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("${}values.env:a", max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["models", "cameras", "events", "labels", "rules", "score", "people", "*", "source"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@hypothesis.given(own=st.dictionaries(st.sampled_from(["models", "cameras", "events"]), JSON), said=JSON)
def test_only_allowed_places_ever_change(own: Mapping[str, object], said: object) -> None:
    """Whatever an overlay says, and whatever the device's file is: nothing else differs afterwards."""
    hypothesis.assume(isinstance(said, dict))
    before = json.dumps(own, sort_keys=True)
    found = lay_over(own, Overlay(Path("release"), Document(said, {}, ()), {"a": 1}))
    assert json.dumps(own, sort_keys=True) == before
    for place in found.places:
        assert place in {("events", "labels")} or (len(place), place[0], place[2]) in {
            (3, "models", "score"),
            (3, "models", "nms_iou"),
            (3, "cameras", "rules"),
        }
    assert without(found.data, found.places) == without(own, found.places)


def without(data: object, places: Collection[Location]) -> object:
    """Data without what lies at some places, and without the sections that are empty then."""
    left = copy.deepcopy(data)
    for place in places:
        section: Any = left
        for step in place[:-1]:
            section = section.get(step) if isinstance(section, dict) else None
        if isinstance(section, dict):
            section.pop(place[-1], None)
    assert isinstance(left, dict)
    return {key: value for key, value in left.items() if value not in ({}, None)}
