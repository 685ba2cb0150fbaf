"""The section `updates`: zones and windows that mean something, and what it needs beside it."""

from datetime import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from edge_runtime.config import InvalidConfig, load_config
from edge_runtime.config.updates import DownloadConfig, UpdatesConfig, WindowConfig
from edge_runtime.node.updates_parts import rules_of

SITE = """
cameras: {dock: {source: {kind: synthetic}, model: m}}
models: {m: {package: p}}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "site.yaml"
    path.write_text(SITE + text, encoding="utf-8")
    return path


def test_without_the_section_none_are_taken(tmp_path: Path) -> None:
    assert not load_config(written(tmp_path, "")).config.takes_updates
    off = load_config(written(tmp_path, "delivery: {}\nupdates: {enabled: false}\n")).config
    assert not off.takes_updates


def test_windows_and_what_they_come_to(tmp_path: Path) -> None:
    text = """
delivery: {}
updates:
  hardware: [dock-camera]
  time_zone: Europe/Zurich
  windows:
    - {days: [sat, sun], start: "22:00", end: "04:00"}
  download: {rate_kb_s: 500, metered: use, deadline: 3600}
  wait: 86400
"""
    config = load_config(written(tmp_path, text)).config
    assert config.takes_updates
    assert config.updates is not None
    assert config.updates.windows == (WindowConfig(days=("sat", "sun"), start=time(22), end=time(4)),)
    rules = rules_of(config.updates, "cam-07")
    assert [str(window.zone) for window in rules.windows.windows] == ["Europe/Zurich"]
    assert (rules.deadlines.wait, rules.deadlines.download) == (86_400_000, 3_600_000)


def test_it_needs_a_link(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig) as found:
        load_config(written(tmp_path, "updates: {}\n"))
    assert "updates: needs a delivery section" in str(found.value)


@pytest.mark.parametrize(
    "section",
    [
        {"time_zone": "Europe/Atlantis"},
        {"time_zone": "../../etc/passwd"},
        {"windows": [{"start": "02:00", "end": "02:00"}]},
        {"windows": [{"start": "25:00", "end": "02:00"}]},
        {"windows": [{"days": ["someday"], "start": "01:00", "end": "02:00"}]},
        {"hardware": ["with blanks"]},
        {"quota_mb": 1},
        {"surprise": True},
    ],
)
def test_what_cannot_be_meant(section: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        UpdatesConfig.model_validate(section)


@pytest.mark.parametrize("section", [{"metered": "maybe"}, {"rate_kb_s": 0}, {"metered_interfaces": ["a b"]}])
def test_bounds_of_the_download(section: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        DownloadConfig.model_validate(section)
