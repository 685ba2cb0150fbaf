"""What people write in YAML ends in plain data or in one sentence."""

import pytest

from fleet_server.releases.yaml_text import NoYaml, read_yaml


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            b"notes: 2026-99-99\n",
            r"a value in it is not what it looks like \(month must be in 1..12\): quote it",
        ),
        (b"a: !!bool maybe\n", "a value in it"),
        (b"a: !!timestamp soon\n", "a value in it"),
        (b'a: !!int ""\n', "a value in it"),
        (b"[" * 900, "."),
        (b"a: [\n", "it is no YAML"),
        (b"a: \xff\n", "it is no UTF-8 text"),
        (b"!!python/object/apply:os.system [x]\n", "it is no YAML"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text: bytes, sentence: str) -> None:
    with pytest.raises(NoYaml, match=sentence) as refused:
        read_yaml(text)
    assert "\n" not in str(refused.value)


def test_plain_data_is_read() -> None:
    assert read_yaml(b"a: [1, 2.5, x]\n") == {"a": [1, 2.5, "x"]}
    assert read_yaml(b"") is None
