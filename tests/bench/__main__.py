"""`make bench`: runs every `bench_*.py` here, one after another, each in a process of its own.

    make bench                    all of them
    make bench ARGS="rules draw"  those whose names contain one of the words

Each prints ratios measured in its own run, because absolute times of one machine say little about another. Nothing
else should run meanwhile.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main(words: list[str]) -> int:
    """Runs the chosen benchmarks; the number of those that failed is the exit code."""
    chosen = [
        path
        for path in sorted(HERE.glob("bench_*.py"))
        if not words or any(word in path.stem for word in words)
    ]
    if not chosen:
        names = ", ".join(path.stem.removeprefix("bench_") for path in sorted(HERE.glob("bench_*.py")))
        sys.stderr.write(f"error: no benchmark is named so; there are {names}\n")
        return 2
    failed = []
    for path in chosen:
        print(f"\n== {path.stem.removeprefix('bench_').replace('_', ' ')}", flush=True)
        if subprocess.run(
            [sys.executable, "-m", f"tests.bench.{path.stem}"], check=False, cwd=HERE.parent.parent
        ).returncode:
            failed.append(path.stem)
    if failed:
        sys.stderr.write(f"error: failed: {', '.join(failed)}\n")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
