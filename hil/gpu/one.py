"""`python -m hil.gpu.one CHECK`: one check in a process of its own, so that what ends it ends no other check."""

import argparse
import dataclasses
import importlib
import json
import sys
import time
import traceback
from pathlib import Path

from hil.gpu.plan import CHECKS
from hil.gpu.report import Result, Status

_OURS = ("deploy", "edge_runtime", "hil")


def main() -> int:
    """Run it and write what became of it into the folder of the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("check", choices=list(CHECKS))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--package", type=Path, required=True)
    parser.add_argument("--swaps", type=int, required=True)
    parser.add_argument("--frames", type=int, required=True)
    wanted = parser.parse_args()
    begun = time.monotonic_ns()
    result = run_check(wanted.check, wanted.out, wanted.package, wanted.swaps, wanted.frames)
    result = dataclasses.replace(result, seconds=(time.monotonic_ns() - begun) / 1e9)
    target: Path = wanted.out / f"{wanted.check}.result.json"
    target.write_text(json.dumps(dataclasses.asdict(result)), encoding="utf-8")
    return 0


def run_check(name: str, out: Path, package: Path, swaps: int, frames: int) -> Result:
    """What became of one check; an error of any kind is its failure, with the traceback in its log."""
    try:
        from hil.gpu.bench import Bench, Failed, NotPossible  # noqa: PLC0415 - a device may lack what they import

        check = getattr(importlib.import_module(CHECKS[name].module), CHECKS[name].function)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in _OURS:
            raise
        return Result(name, "not possible", f"the Python module {error.name} is not installed")
    bench = Bench(out, package, swaps, frames)
    status: Status = "passed"
    try:
        text = check(bench)
    except NotPossible as error:
        status, text = "not possible", str(error)
    except Failed as error:
        status, text = "failed", str(error)
    except Exception as error:  # noqa: BLE001 - whatever a check meets, the others are still to come
        traceback.print_exc()
        status, text = "failed", f"{type(error).__name__}: {error}"
    return Result(name, status, text, bench.on_gpu, values=bench.values)


if __name__ == "__main__":
    sys.exit(main())
