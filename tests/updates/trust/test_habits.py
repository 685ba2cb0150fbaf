"""What holds for the room as a whole: tuf's public names alone, imports where they are needed, judging apart."""

import re
import subprocess
import sys

import pytest

from edge_runtime.updates import trust
from tests.conftest import REPOSITORY

ROOM = REPOSITORY / "edge_runtime" / "updates" / "trust"
PRIVATE = re.compile(r"\._trusted_set|_internal|\._fetcher|\._load_|\._persist|\._update_|tuf\.api\._")


def test_tuf_is_used_by_its_public_names() -> None:
    """tufup broke with a minor release of tuf, because it reached into `Updater._trusted_set` (tufup #65)."""
    ours = [*ROOM.rglob("*.py"), *(REPOSITORY / "fleet_server").rglob("*.py")]
    found = [path.name for path in ours if PRIVATE.search(path.read_text(encoding="utf-8"))]
    assert found == []
    assert PRIVATE.search("updater._trusted_set.root")


@pytest.mark.parametrize(
    "module",
    [
        "edge_runtime.updates",
        "edge_runtime.updates.problems",
        "edge_runtime.updates.trust",
        "edge_runtime.updates.trust.bootstrap",
        "edge_runtime.updates.trust.fetch",
    ],
)
def test_who_only_imports_the_room_does_not_pay_for_tuf(module: str) -> None:
    code = (
        f"import sys, {module}; print([n for n in ('tuf', 'securesystemslib', 'httpx') if n in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=REPOSITORY
    )
    assert ran.stdout.strip() == "[]"


def test_every_name_of_the_room_is_there() -> None:
    assert all(getattr(trust, name) is not None for name in trust.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = trust.nothing


def test_the_judging_modules_do_no_input_and_no_output() -> None:
    for name in ("chain", "listing", "moment", "memory", "admission"):
        text = (ROOM / f"{name}.py").read_text(encoding="utf-8")
        for word in ("open(", "Path", "httpx", "import os", "SystemClock", ".now("):
            assert word not in text, f"{name}: {word}"
