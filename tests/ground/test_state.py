"""The state directory's names: what somebody else's digest becomes must be one file in one folder."""

from pathlib import Path

import pytest

from edge_runtime.state import StateDirectory


def test_a_crops_file_lies_under_its_digest(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    assert state.evidence_file("0a" * 32) == tmp_path / "evidence" / f"{'0a' * 32}.jpg"


@pytest.mark.parametrize("digest", ["", "0A" * 32, "0a" * 31, "0a" * 32 + "\n", "../" + "0a" * 32, "/" * 64])
def test_what_is_no_digest_becomes_no_path(tmp_path: Path, digest: str) -> None:
    with pytest.raises(ValueError, match="not a SHA-256"):
        StateDirectory(tmp_path).evidence_file(digest)
