"""No output overwrites another or the configuration; a summary is whole or absent."""

import json
from pathlib import Path

import pytest

from edge_runtime.cli.outputs import refuse_collisions, write_summary
from edge_runtime.errors import ConfigError


@pytest.mark.parametrize(
    ("outputs", "sentence"),
    [
        ({"events": "same.out", "summary": "same.out"}, "--summary .* is what --events writes already"),
        ({"summary": "config.yaml"}, "--summary .* is the configuration file already"),
        ({"annotate": "./x/../config.yaml"}, "--annotate .* is the configuration file already"),
        ({"summary": "."}, "is a folder: name a file"),
        ({"summary": "config.yaml/s.json"}, "its folder cannot be made"),
    ],
)
def test_collisions(tmp_path: Path, outputs: dict[str, str], sentence: str) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("version: 1\n")
    (tmp_path / "x").mkdir()
    with pytest.raises(ConfigError, match=sentence):
        refuse_collisions(config, {option: tmp_path / name for option, name in outputs.items()})
    assert config.read_text() == "version: 1\n"


def test_devices_and_stdout_may_be_shared(tmp_path: Path) -> None:
    outputs = {"events": "-", "annotate": None, "summary": "/dev/null", "contact-sheet": "/dev/null"}
    refuse_collisions(tmp_path / "c.yaml", outputs)


def test_a_summary_is_written_whole_or_reported(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    assert write_summary(path, {"frames": 3}) == []
    assert json.loads(path.read_text()) == {"frames": 3}
    (trouble,) = write_summary(Path("/dev/full"), {"frames": 3})
    assert trouble == "/dev/full: the summary cannot be written: No space left on device"
