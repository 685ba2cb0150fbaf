"""What people write in YAML ends in plain data, the same as on a device, or in one sentence."""

import pytest

from fleet_server.releases.yaml_text import NoYaml, read_yaml


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"a: !!bool maybe\n", r"line 1: a: does not hold what its tag !!bool says"),
        (b"a: 1\nb: !!timestamp soon\n", r"line 2: b: the tag !!timestamp is not allowed"),
        (b"a: 1\nb: 2\na: 3\n", r"line 3: a: is given twice; the first is on line 1"),
        (b"a: " + b"9" * 5000 + b"\n", "line 1: a: is a number with too many digits"),
        (b"[" * 900, "line 1: nested more than 40 levels deep"),
        (b"a: [\n", "line 1: a value is missing or a bracket has nothing before it"),
        (b"a: \xff\n", "it is no UTF-8 text"),
        (b"!!python/object/apply:os.system [x]\n", "line 1: the tag .* is not allowed"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text: bytes, sentence: str) -> None:
    with pytest.raises(NoYaml, match=sentence) as refused:
        read_yaml(text)
    assert "\n" not in str(refused.value)


def test_plain_data_is_read() -> None:
    assert read_yaml(b"a: [1, 2.5, x]\n") == {"a": [1, 2.5, "x"]}
    assert read_yaml(b"") is None


def test_words_and_times_are_what_they_look_like_as_on_a_device() -> None:
    """PyYAML by itself reads these as true, false, 1350, 1000, a date, and 15."""
    text = b"on: yes\nlabel: no\nstart: 22:30\nid: 1_000\nday: 2026-12-01\nmode: 017\n"
    assert read_yaml(text) == {
        "on": "yes",
        "label": "no",
        "start": "22:30",
        "id": "1_000",
        "day": "2026-12-01",
        "mode": 17,
    }
