"""`hil/gpu/check.sh`: everything that needs a real GPU in one run of under ten minutes, as a table and as JSON.

Each check runs in a process of its own with a limit, so that a driver that hangs or a crash costs one check.
Exit codes: 0 nothing failed and the kernel ran on a GPU; 1 a check failed; 2 the command line is wrong;
3 nothing failed, but the kernel did not run on a GPU, so the run says nothing about one; 130 interrupted.
"""

import argparse
import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from hil.gpu.plan import CHECKS, TOTAL_S
from hil.gpu.report import FAILED, Result, Value, as_json, exit_code, table

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "models" / "centerface"

INTERRUPTED = 130

_LEAST_S = 5.0
_TAIL = 400


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks and write what they found."""
    wanted = _parse(arguments)
    out: Path = wanted.out.resolve()
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in CHECKS:
            (out / f"{name}.result.json").unlink(missing_ok=True)
    except FileExistsError as error:
        sys.stderr.write(f"error: {error.filename} is no folder: name one with --out\n")
        return FAILED
    except OSError as error:
        sys.stderr.write(f"error: {error.filename}: {error.strerror}\n")
        return FAILED
    ends = time.monotonic_ns() + int(TOTAL_S * 1e9)
    results = []
    for name in wanted.only or CHECKS:
        left_s = (ends - time.monotonic_ns()) / 1e9
        if left_s < _LEAST_S:
            results.append(Result(name, "not possible", f"the {TOTAL_S:.0f} s of the whole run are over"))
            continue
        sys.stderr.write(f"{name} ...\n")
        results.append(_run(name, wanted, min(left_s, CHECKS[name].limit_s)))
    report = as_json(results, _machine(results))
    (out / "gpu.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    (out / "gpu.txt").write_text(table(results) + "\n", encoding="utf-8")
    print(table(results))
    return exit_code(results)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hil/gpu/check.sh", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/hil-gpu"), help="folder of the results")
    parser.add_argument("--package", type=Path, default=PACKAGE, help="model package with golden vectors")
    parser.add_argument("--swaps", type=int, default=1000, help="models that are exchanged one after another")
    parser.add_argument(
        "--only",
        action="append",
        choices=list(CHECKS),
        metavar="CHECK",
        help=f"run this check alone; repeatable: {', '.join(CHECKS)}",
    )
    parser.add_argument("--frames", type=int, default=300, help="frames of the demo that are looked at")
    wanted = parser.parse_args(arguments)
    if wanted.swaps < 100:
        parser.error("--swaps must be at least 100: fewer show no growth")
    if not wanted.package.exists():
        parser.error(
            f"--package {wanted.package}: there is no such model package; `make assets` fetches the demo's"
        )
    if wanted.frames < 30:
        parser.error("--frames must be at least 30: the demo sees its first event after a second")
    return wanted


def _run(name: str, wanted: argparse.Namespace, limit_s: float) -> Result:
    out: Path = wanted.out.resolve()
    command = [sys.executable, "-m", "hil.gpu.one", name, "--out", str(out)]
    command += ["--package", str(wanted.package.resolve())]
    command += ["--swaps", str(wanted.swaps), "--frames", str(wanted.frames)]
    log, begun = out / f"{name}.log", time.monotonic_ns()
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(  # noqa: S603 - this interpreter, with what was parsed
            command,
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            # builders that it started go with it
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    seconds = (time.monotonic_ns() - begun) / 1e9
    if code is None:
        return Result(name, "failed", f"it did not end within {limit_s:.0f} s; see {log}", seconds=seconds)
    try:
        return Result(**json.loads((out / f"{name}.result.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        how = f"signal {-code}" if code < 0 else f"code {code}"
        said = " ".join(log.read_text(encoding="utf-8", errors="replace").split())[-_TAIL:]
        return Result(
            name, "failed", f"its process ended with {how}: {said or 'without a word'}", seconds=seconds
        )


def _machine(results: Sequence[Result]) -> Mapping[str, Value]:
    """What the run was made on."""
    found: dict[str, Value] = {
        "architecture": platform.machine(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    for result in results:
        for name in ("device", "compute_capability", "library", "memory_mib", "tensorrt", "onnxruntime"):
            if name in result.values:
                found.setdefault(name, result.values[name])
    return found


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
