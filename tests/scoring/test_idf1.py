"""Our IDF1 is motmetrics' IDF1: on made-up sequences always, on real ones where its environment is made."""

import json
import random
import subprocess
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.environments import python_of
from tests.scoring import mot
from tests.scoring.idf1 import Identity, best_total, score

HERE = Path(__file__).resolve().parent
REFERENCE = HERE.parent / "data" / "idf1_by_motmetrics.json"
CASES = ("blinking", "swapping", "splitting", "crowded", "false_boxes")


def write_case(folder: Path, name: str) -> None:
    """A sequence with every kind of mistake, most of the named kind."""
    rng = random.Random(name)
    rates = {kind: 0.3 if kind == name else 0.03 for kind in CASES}
    people = 14 if name == "crowded" else 5
    walks = {i: (rng.uniform(0, 300), rng.uniform(0, 120), rng.uniform(-6, 6)) for i in range(1, people + 1)}
    called = {i: i for i in walks}
    unused = people + 1
    truth, found = [], []
    for frame in range(1, 41):
        if rng.random() < rates["swapping"]:
            first, second = rng.sample(sorted(called), 2)
            called[first], called[second] = called[second], called[first]
        for person, (left, top, speed) in walks.items():
            x = left + speed * frame
            flag = 0 if rng.random() < 0.05 else 1
            truth.append((frame, person, x, top, 30, 80, flag))
            if rng.random() < rates["splitting"] / 5:
                called[person], unused = unused, unused + 1
            if rng.random() >= rates["blinking"]:
                shift = rng.uniform(-14, 14)
                found.append((frame, called[person], x + shift, top + rng.uniform(-8, 8), 30, 80, 1))
            if rng.random() < rates["false_boxes"]:
                found.append((frame, unused + rng.randint(1, 3), rng.uniform(0, 300), top, 30, 80, 1))
    (folder / name).mkdir()
    for file, rows in (("gt.txt", truth), ("test.txt", found)):
        # One box per identity and frame: a second one of a false identity is left out.
        unique = {(row[0], row[1]): row for row in rows}
        lines = [f"{f},{i},{x:.3f},{y:.3f},{w},{h},{c},-1,-1,-1" for f, i, x, y, w, h, c in unique.values()]
        (folder / name / file).write_text("\n".join(lines) + "\n")


def counts(folder: Path, name: str) -> dict[str, int]:
    found = score(mot.read(folder / name / "gt.txt").counted(), mot.read(folder / name / "test.txt"))
    return {"idtp": found.idtp, "idfp": found.idfp, "idfn": found.idfn}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_what_motmetrics_said(tmp_path: Path, name: str) -> None:
    expected = json.loads(REFERENCE.read_text(encoding="utf-8"))
    write_case(tmp_path, name)
    assert counts(tmp_path, name) == expected[name]


@pytest.mark.trial
def test_agrees_with_motmetrics_itself(tmp_path: Path) -> None:
    python = python_of("motmetrics-venv", HERE / "requirements-motmetrics.txt")
    for name in CASES:
        write_case(tmp_path, name)
    done = subprocess.run(
        [str(python), str(HERE / "reference_idf1.py"), str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
    )
    said = json.loads(done.stdout)
    assert said == json.loads(REFERENCE.read_text(encoding="utf-8"))
    assert {"TUD-Campus", "TUD-Stadtmitte"} < said.keys()
    assert {name: counts(tmp_path, name) for name in said} == said


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 5))
def test_best_total_is_as_good_as_any_choice(seed: int, rows: int, columns: int) -> None:
    gain = np.random.default_rng(seed).integers(0, 6, (rows, columns))
    wide = gain if rows <= columns else gain.T
    best = max(
        int(wide[range(len(wide)), list(order)].sum())
        for order in permutations(range(wide.shape[1]), len(wide))
    )
    assert best_total(gain) == best


def sequence(*rows: tuple[int, int, float]) -> mot.Rows:
    """Rows of (frame, identity, left) with equal boxes of 30 x 80."""
    return mot.Rows(
        np.array([row[0] for row in rows], np.int64),
        np.array([row[1] for row in rows], np.int64),
        np.array([(row[2], 0, row[2] + 30, 80) for row in rows], np.float64).reshape(-1, 4),
        np.ones(len(rows)),
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(sequence((1, 7, 0), (2, 7, 5), (3, 7, 10)), Identity(3, 0, 0), id="perfect"),
        pytest.param(sequence((1, 7, 0), (2, 7, 5), (3, 8, 10)), Identity(2, 1, 1), id="changes its name"),
        pytest.param(sequence((1, 7, 0), (3, 7, 10)), Identity(2, 0, 1), id="missed once"),
        pytest.param(sequence((1, 7, 0), (2, 7, 17), (3, 7, 10)), Identity(2, 1, 1), id="too far once"),
        pytest.param(sequence((1, 7, 500)), Identity(0, 1, 3), id="nothing right"),
        pytest.param(sequence(), Identity(0, 0, 3), id="nothing found"),
    ],
)
def test_table(found: mot.Rows, expected: Identity) -> None:
    truth = sequence((1, 1, 0), (2, 1, 5), (3, 1, 10))
    result = score(truth, found)
    assert result == expected
    total = 2 * expected.idtp + expected.idfp + expected.idfn
    assert result.idf1 == pytest.approx(2 * expected.idtp / total)
