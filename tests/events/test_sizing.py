"""The size cap: nothing larger ever leaves, and nothing is cut in the middle."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.events import Unobserved
from edge_runtime.events.origin import of_camera, of_rule
from edge_runtime.events.sizing import fit, largest_size, one_line
from edge_runtime.protocol import DataClass, EventRecord, EventTooLarge, encode_event
from tests.rigs.events import CONFIG, MODEL, Camera, FakeClock, Seen, rule

UP = ((0.5, 1.0), (0.5, 0.0))

text = st.text(st.characters(codec=None), max_size=300)


def example(**fields: object) -> EventRecord:
    camera = Camera([rule("line", line=UP)], max_bytes=65_536)
    camera.watch(0.5, Seen(30, 50))
    (record,) = camera.watch(0.5, Seen(70, 50))
    return record.model_copy(update=fields)


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("plain", "plain"),
        ("  two\nlines\tand\x00more ", "two lines and more"),
        ("", None),
        (" \n ", None),
        ("x" * 21, "x" * 19 + "…"),
        ("\udce4 torn", "? torn"),
    ],
)
def test_text_is_one_valid_line(given_text: str, expected: str | None) -> None:
    assert one_line(given_text, 20) == expected


def test_what_fits_is_left_alone() -> None:
    record = example(reason="all is well")
    assert fit(record, len(encode_event(record, 65_536))) is record


def test_the_reason_is_shortened_before_the_label() -> None:
    record = example(reason="because " * 30, label="a label")
    bare = len(encode_event(record.model_copy(update={"reason": None}), 65_536))
    shorter = fit(record, bare + 40)
    assert shorter.label == "a label"
    assert shorter.reason is not None
    assert shorter.reason.endswith("…")
    assert "because" in shorter.reason
    assert fit(record, bare).reason is None


def test_without_free_text_to_give_it_is_refused_not_cut() -> None:
    record = example(reason="r" * 200, label="l" * 60)
    with pytest.raises(EventTooLarge):
        fit(record, 400)


@given(
    reason=st.one_of(st.none(), text.map(lambda t: one_line(t, 256))),
    label=st.one_of(st.none(), text.map(lambda t: one_line(t, 64))),
    room=st.integers(-5, 600),
)
def test_whatever_the_text_it_fits_or_is_refused(reason: str | None, label: str | None, room: int) -> None:
    record = BASE.model_copy(update={"reason": reason, "label": label})
    bare = len(encode_event(BASE.model_copy(update={"reason": None, "label": None}), 65_536))
    try:
        line = encode_event(fit(record, bare + room), 65_536)
    except EventTooLarge:
        assert room < 0
        return
    assert len(line) <= bare + room
    assert EventRecord.model_validate_json(line).id == BASE.id
    assert json.loads(line)["state"] == "ended"


BASE = example()

names = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")


@settings(max_examples=40, deadline=None)
@given(
    camera_name=names,
    rule_name=names,
    label=text,
    detail=text,
    extra=st.integers(0, 200),
    data_class=st.sampled_from([None, *DataClass]),
)
def test_a_desk_that_starts_never_refuses_and_never_exceeds(
    camera_name: str, rule_name: str, label: str, detail: str, extra: int, data_class: DataClass | None
) -> None:
    rules = [rule("line", name=rule_name, line=UP), rule("dwell", name=f"{rule_name[:60]}-d", seconds=0.3)]
    cap = extra + max(
        largest_size(
            origin, camera=camera_name, model=MODEL, config=CONFIG, boot_id=FakeClock().wall().boot_id
        )
        for origin in (*(of_rule(each, data_class) for each in rules), of_camera(data_class))
    )
    camera = Camera(rules, name=camera_name, labels=(label,), max_bytes=cap, data_class=data_class)
    records = camera.watch(0.5, Seen(30, 50)) + camera.watch(0.5, Seen(70, 50))
    records += camera.blind(Unobserved.LOST, detail=detail) + camera.desk.finish(interrupted=True)
    assert len(records) == 5
    assert camera.desk.counters().refused_too_large == 0
    for record in records:
        line = encode_event(record, cap)
        assert b"\n" not in line
        assert EventRecord.model_validate_json(line) == record


def test_one_that_cannot_fit_is_counted() -> None:
    camera = Camera([rule("line", line=UP)])
    camera.desk._composer._max_bytes = 300  # smaller than any event: the check at the start forbids it
    camera.watch(0.5, Seen(30, 50))
    assert camera.watch(0.5, Seen(70, 50)) == []
    assert camera.desk.counters().refused_too_large == 1
