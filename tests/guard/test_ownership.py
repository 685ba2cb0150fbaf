"""A device has one guard, whatever became of the name of its socket."""

from pathlib import Path

import pytest

from edge_runtime.errors import ConfigError
from edge_runtime.guard.ownership import Ownership


def test_a_folder_has_one_owner_at_a_time(tmp_path: Path) -> None:
    first = Ownership(str(tmp_path))
    with pytest.raises(ConfigError, match=r"another guard holds .*; a device has one"):
        Ownership(str(tmp_path))
    first.close()
    Ownership(str(tmp_path)).close()


def test_a_folder_that_cannot_be_locked_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot lock .*/nowhere: No such file"):
        Ownership(str(tmp_path / "nowhere"))
