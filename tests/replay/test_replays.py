"""Every folder in tests/replays is replayed, and has to give the events that it expects, to the byte.

Such a folder is made of a field problem: `edge-runtime replay RECORDING --as-test tests/replays/NAME`.
"""

from pathlib import Path

import pytest

from edge_runtime.replay.case import check_case
from edge_runtime.replay.words import difference_lines
from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / "tests" / "replays"
CASES = sorted(path for path in FOLDER.iterdir() if path.is_dir())


def test_there_are_some() -> None:
    assert CASES


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_replay(case: Path) -> None:
    found = check_case(case)
    lines = "\n".join(difference_lines(found.differences, found.replayed.base_ns, 50))
    assert found.same, f"{(case / 'README.md').read_text()}{lines or 'the order of the events differs'}"
    assert found.replayed.refused == 0
