"""IDF1's counts by motmetrics 1.4.0. Runs in an environment of its own, without this project.

    python reference_idf1.py FOLDER

FOLDER holds NAME/gt.txt and NAME/test.txt in the format of MOTChallenge; two real sequences that motmetrics carries
are added and copied there. Prints a JSON object: name to {idtp, idfp, idfn}.
"""

import json
import shutil
import sys
import warnings
from pathlib import Path

import motmetrics  # type: ignore[import-not-found]

REAL = ("TUD-Campus", "TUD-Stadtmitte")


def main(folder: Path) -> dict[str, dict[str, int]]:
    """Score every sequence in the folder."""
    for name in REAL:
        shutil.copytree(Path(motmetrics.__file__).parent / "data" / name, folder / name)
    counts = {}
    for sequence in sorted(folder.iterdir()):
        truth = motmetrics.io.loadtxt(str(sequence / "gt.txt"), fmt="mot15-2D", min_confidence=1)
        found = motmetrics.io.loadtxt(str(sequence / "test.txt"), fmt="mot15-2D")
        accumulator = motmetrics.utils.compare_to_groundtruth(truth, found, "iou", distth=0.5)
        summary = motmetrics.metrics.create().compute(accumulator, metrics=["idtp", "idfp", "idfn"])
        counts[sequence.name] = {name: int(summary[name].iloc[0]) for name in ("idtp", "idfp", "idfn")}
    return counts


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(main(Path(sys.argv[1]))))
