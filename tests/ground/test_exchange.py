"""A folder takes another's place in one step, and also where the file system has no such step."""

from pathlib import Path

import pytest

from edge_runtime import durable
from edge_runtime.durable import staged_directory


def replaced(target: Path) -> None:
    for text in ("old", "new"):
        with staged_directory(target) as staged:
            (staged / "file").write_text(text, encoding="utf-8")
    assert (target / "file").read_text(encoding="utf-8") == "new"
    assert list(target.parent.iterdir()) == [target]


def test_replaced_in_one_step(tmp_path: Path) -> None:
    replaced(tmp_path / "package")


def test_replaced_without_that_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "exchange", lambda _first, _second: False)
    replaced(tmp_path / "package")


def test_two_names_change_places(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        folder.mkdir()
        (folder / folder.name).touch()
    if durable.exchange(first, second):
        assert (first / "b").exists()
        assert (second / "a").exists()
    with pytest.raises(OSError, match="No such file"):
        durable.exchange(tmp_path / "none", second)
