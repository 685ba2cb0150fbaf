"""A plan from a file and from options: the same words, one record, and mistakes with their line."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.errors import ConfigError
from fleet_server.cli import plan_words as words
from fleet_server.cli.plan_document import PlanDocument, read_plan
from fleet_server.cli.plan_file import DEADLINES, PACING, PLAN, RULES, SECTIONS, STAGE, plan_of
from fleet_server.rollouts.plan_records import (
    MemberDeadlines,
    OnFail,
    Pacing,
    RolloutPlan,
    StagePlan,
    StageRules,
    WeeklyWindow,
)

YAML = """\
release: models/yolox-nano/7
slot: detector
labels: {site: berlin, on: no}
hardware: [jetson-orin]
rules: {soak: 30m, max_bad_share: 5%}
stages:
  - 2%
  - share: 10
    min_devices: 5
    soak: 2h
    max_bad: 3
  - {share: 100%, not_before: 2026-12-01T08:00:00Z, labels: {row: "1"}}
windows: [mon-fri 22:00-05:00 Europe/Berlin, "sat,sun 00:00-24:00"]
pacing: {max_in_flight: 20, bytes_per_hour: 20 GB}
deadlines: {downloading: 12h, probation: 90m}
start_at: 2026-12-01T08:00:00
on_fail: rollback
converge: false
notes: for the night
"""
TOML = """\
release = "models/yolox-nano/7"
slot = "detector"
hardware = ["jetson-orin"]
stages = ["2%", {share = 10, min_devices = 5, soak = "2h", max_bad = 3}, \
{share = 100, not_before = 2026-12-01T08:00:00Z, labels = {row = "1"}}]
windows = ["mon-fri 22:00-05:00 Europe/Berlin", "sat,sun 00:00-24:00"]
start_at = 2026-12-01T09:00:00+01:00
on_fail = "rollback"
converge = false
notes = "for the night"
[labels]
site = "berlin"
on = "no"
[rules]
soak = "30m"
max_bad_share = "5%"
[pacing]
max_in_flight = 20
bytes_per_hour = 20_000_000_000
[deadlines]
downloading = "12h"
probation = "90m"
"""
NIGHT = 1_796_112_000_000
WANTED = RolloutPlan(
    name="yolox-nano 7",
    slot="detector",
    release="yolox-nano",
    counter=7,
    labels={"site": "berlin", "on": "no"},
    hardware=("jetson-orin",),
    stages=(
        StagePlan(basis_points=200, rules=StageRules(soak_s=1800, max_bad_share=0.05)),
        StagePlan(
            basis_points=1000,
            rules=StageRules(soak_s=7200, max_bad_share=0.05, min_devices=5, max_bad=3),
        ),
        StagePlan(
            labels={"row": "1"}, not_before_ms=NIGHT, rules=StageRules(soak_s=1800, max_bad_share=0.05)
        ),
    ),
    on_fail=OnFail.ROLLBACK,
    pacing=Pacing(max_in_flight=20, bytes_per_hour=20_000_000_000),
    deadlines=MemberDeadlines(downloading_s=12 * 3600, probation_s=5400),
    start_at_ms=NIGHT,
    windows=(
        WeeklyWindow(
            days=("mon", "tue", "wed", "thu", "fri"), start="22:00", end="05:00", time_zone="Europe/Berlin"
        ),
        WeeklyWindow(days=("sat", "sun"), start="00:00", end="00:00"),
    ),
    converge=False,
    notes="for the night",
)


def written(folder: Path, text: str, name: str = "plan.yaml") -> PlanDocument:
    file = folder / name
    file.write_text(text)
    return read_plan(file)


@pytest.mark.parametrize(("name", "text"), [("plan.yaml", YAML), ("plan.yml", YAML), ("plan.toml", TOML)])
def test_yaml_and_toml_mean_the_same_plan(tmp_path: Path, name: str, text: str) -> None:
    assert plan_of(written(tmp_path, text, name), {}) == WANTED


def test_what_plan_json_prints_is_a_file_too(tmp_path: Path) -> None:
    report = {"plan": WANTED.model_dump(mode="json"), "selected": 3}
    document = written(tmp_path, json.dumps(report), "plan.json")
    assert plan_of(document, {}) == WANTED
    alone = written(tmp_path, WANTED.model_dump_json(), "alone.json")
    assert plan_of(alone, {}) == WANTED
    with pytest.raises(ConfigError, match="a plan in JSON is whole"):
        plan_of(alone, {"slot": "other"})
    broken = written(tmp_path, '{"name": "x", "slot": "a"}', "broken.json")
    with pytest.raises(ConfigError, match=r"broken\.json: release is missing"):
        plan_of(broken, {})


def test_options_alone_are_a_plan() -> None:
    options = {
        "release": "models/yolox-nano/7",
        "slot": "detector",
        "stages": ["2", "10", "50", "100"],
        "rules": {"min_devices": 4},
    }
    plan = plan_of(PlanDocument({}), options)
    assert [stage.basis_points for stage in plan.stages] == [200, 1000, 5000, 10_000]
    assert {stage.rules.min_devices for stage in plan.stages} == {4}
    assert plan.stages[0].rules.max_bad_share == StageRules().max_bad_share, (
        "what is not said is the record's own"
    )


def test_options_stand_above_the_file_and_above_each_stage(tmp_path: Path) -> None:
    document = written(tmp_path, YAML)
    plan = plan_of(
        document, {"rules": {"soak": "5m"}, "pacing": {"max_in_flight": 3}, "labels": {"on": "yes"}}
    )
    assert [stage.rules.soak_s for stage in plan.stages] == [300, 300, 300]
    assert plan.stages[1].rules.min_devices == 5
    assert plan.pacing == Pacing(max_in_flight=3, bytes_per_hour=20_000_000_000)
    assert plan.labels == {"site": "berlin", "on": "yes"}


def test_a_configuration_needs_no_slot_and_has_values(tmp_path: Path) -> None:
    text = "release: configurations/site/3\nstages: [100]\nvalues: {threshold: 0.5, night: true}\n"
    more = "device_values: {dock-1: {threshold: 0.4}}\n"
    plan = plan_of(written(tmp_path, text + more), {})
    assert (plan.slot, plan.release, plan.counter) == ("configuration", "site", 3)
    assert plan.values == {"threshold": 0.5, "night": True}
    assert plan.device_values == {"dock-1": {"threshold": 0.4}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("release: models/a/1\nslto: d\nstages: [100]", r":2: slto is not known here: did you mean slot\?"),
        ("release: models/a/x\nslot: d\nstages: [100]", ":1: release must be models/NAME/COUNTER"),
        ("release: models/a/1\nstages: [100]", "slot is missing"),
        ("slot: d\nstages: [100]", "release is missing"),
        ("release: models/a/1\nslot: d", "stages is missing"),
        ("release: models/a/1\nslot: d\nstages: []", ":3: stages must be a list with something in it"),
        ("release: models/a/1\nslot: d\nstages: 2", ":3: stages must be a list"),
        ("release: models/a/1\nslot: configuration\nstages: [2]", ":2: slot takes another kind of release"),
        ("release: models/a/1\nslot: d\nstages:\n  - 2\n  - 0", r":5: stages\[2\].share must be a share"),
        ("release: models/a/1\nslot: d\nstages: [{share: 101}]", r":3: stages\[1\].share must be a share"),
        (
            "release: models/a/1\nslot: d\nstages: [{share: 2, soak: 2}]",
            r"stages\[1\].soak must be a duration",
        ),
        ("release: models/a/1\nslot: d\nstages: [{share: 2, soka: 2h}]", "did you mean soak"),
        ("release: models/a/1\nslot: d\nstages: [10, 5]", "stages must not shrink"),
        (
            "release: models/a/1\nslot: d\nstages: [5]\nrules: {min_devices: 0}",
            r"stages\[1\].min_devices must be",
        ),
        (
            "release: models/a/1\nslot: d\nstages: [5]\nrules: {min_share: 0.8}",
            ":4: rules.min_share must be a share",
        ),
        ("release: models/a/1\nslot: d\nstages: [5]\nrules: {min_share: 180%}", "must be at most 100%"),
        ("release: models/a/1\nslot: d\nstages: [5]\nrules: 3", ":4: rules must be a table"),
        (
            "release: models/a/1\nslot: d\nstages: [5]\nwindows: [mon 1-2]",
            r":4: windows\[1\] must be a weekly",
        ),
        ("release: models/a/1\nslot: d\nstages: [5]\nwindows: [moon 10:00-12:00]", "must name days by"),
        (
            "release: models/a/1\nslot: d\nstages: [5]\nwindows: [mon 25:00-26:00]",
            r"windows\[1\] must name times of a day",
        ),
        ("release: models/a/1\nslot: d\nstages: [5]\non_fail: panic", ":4: on_fail must be pause, halt or"),
        ("release: models/a/1\nslot: d\nstages: [5]\nstart_at: tomorrow", ":4: start_at must be a time"),
        ("release: models/a/1\nslot: d\nstages: [5]\nlabels: {a b: c}", ":4: labels.a b is of another form"),
        ("release: models/a/1\nslot: d\nstages: [5]\nvalues: {a: 1}", "only a configuration has values"),
        (
            "release: models/a/1\nslot: d\nstages: [5]\nslot: e",
            ":4: slot: is given twice; the first is on line 2",
        ),
        ("release: *x\nslot: d\nstages: [5]", r":1: \*x names no anchor above"),
        (
            "release: models/c/1\nslot: d\nstages: [5]\nvalues: {a: .nan}",
            r":4: values.a: infinity and what is no",
        ),
        ("release: !!python/object:os.system x", "the tag .* is not allowed"),
        ("release: [", ":1: "),
        ("- a", "a plan is a table"),
        ("", "a plan is a table"),
        ("a: \x07", ":1: holds the control character U\\+0007"),
        ("a: " + "[" * 80, "nested more than 40 levels deep"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        plan_of(written(tmp_path, text), {})
    assert "\n" not in str(refused.value)
    assert "plan.yaml" in str(refused.value)


def test_several_mistakes_are_said_at_once(tmp_path: Path) -> None:
    text = "release: x\nslto: d\nstages: [{share: 0, soak: 1, soka: 1h, min_share: 5, max_wait: 3}]\n"
    with pytest.raises(ConfigError) as refused:
        plan_of(written(tmp_path, text), {})
    assert str(refused.value).count("; ") == 5
    assert str(refused.value).endswith("; and 2 more")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.yaml", None, "No such file"),
        ("plan.txt", b"a: b", "ends in .yaml, .toml or .json"),
        ("plan.toml", b"a = ", "plan.toml: "),
        ("plan.json", b"{", "it is not JSON"),
        ("plan.json", b"[]", "a plan is a table"),
        ("plan.yaml", b"\xff\xfe", "not text in UTF-8"),
        ("plan.yaml", b"#" * (1024 * 1024 + 1), "at most 1048576 bytes"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, name: str, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        read_plan(tmp_path / name)


def test_every_field_of_the_record_can_be_said_in_a_file() -> None:
    own = {key.name for key in PLAN.values()} | set(SECTIONS) | {"counter"}
    assert own - {"rules"} == set(RolloutPlan.model_fields)
    assert {key.name for key in RULES.values()} == set(StageRules.model_fields)
    assert {key.name for key in STAGE.values()} | {"rules"} == set(StagePlan.model_fields)
    assert {key.name for key in PACING.values()} == set(Pacing.model_fields)
    assert {key.name for key in DEADLINES.values()} == set(MemberDeadlines.model_fields)


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (words.seconds, "90s", 90),
        (words.seconds, "7 d", 7 * 86_400),
        (words.basis_points, "0.5%", 50),
        (words.basis_points, 33.33, 3333),
        (words.basis_points, "100 %", 10_000),
        (words.ratio, "80%", 0.8),
        (words.ratio, "0%", 0.0),
        (words.bytes_of, 512, 512),
        (words.bytes_of, "1.5 GiB", 3 << 29),
        (words.bytes_of, "20 GB", 20_000_000_000),
        (words.bytes_of, "3 kB", 3000),
        (words.scalar, "true", True),
        (words.scalar, "-3", -3),
        (words.scalar, "0.5", 0.5),
        (words.scalar, "1.2.3", "1.2.3"),
        (words.scalar, "nan", "nan"),
    ],
)
def test_words(read: Any, text: Any, value: Any) -> None:
    found = read(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (words.seconds, 90),
        (words.seconds, "1w"),
        (words.basis_points, True),
        (words.basis_points, "2.005%"),
        (words.basis_points, "-1"),
        (words.ratio, 0.05),
        (words.bytes_of, True),
        (words.bytes_of, "2 PB"),
        (words.unix_ms, 5),
        (words.unix_ms, "1969-01-01T00:00:00Z"),
        (words.release_of, "models/a/b/1"),
        (words.release_of, "people/a/1"),
        (words.window, "mon 22:00"),
    ],
)
def test_words_that_are_none(read: Any, text: Any) -> None:
    with pytest.raises(ValueError, match="must "):
        read(text)


def test_days_go_over_the_end_of_the_week() -> None:
    assert words.window("sat-mon,wed 10:00-11:00")["days"] == ["mon", "wed", "sat", "sun"]
    assert len(words.window("daily 10:00-11:00")["days"]) == 7


@given(st.text(max_size=60), st.sampled_from([words.seconds, words.basis_points, words.ratio, words.window]))
def test_no_text_makes_a_reader_fail_in_another_way(text: str, read: Any) -> None:
    try:
        read(text)
    except ValueError as error:
        said = str(error)
    else:
        said = "must "
    assert said.startswith("must ")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from([*PLAN, *SECTIONS, "share", "soak", "x"]), inner)
        ),
        max_leaves=12,
    )
)
def test_no_document_makes_the_reader_fail_in_another_way(data: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        plan_of(PlanDocument(data if isinstance(data, dict) else {"stages": data}), {})
    assert "\n" not in str(refused.value)
