"""`make demo`: runs the driver-monitoring camera, or whatever CLIP, MODEL and RULES name, on the whole road.

A fleet server with its broker, an enrolled device, and a cable between them that is pulled out in the middle.
"""

import argparse
import contextlib
import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from deploy.demo.compose import Wishes, compose
from deploy.demo.signals import Signals
from deploy.demo.story import tell
from edge_runtime.cli.main import run
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.packages import read_manifest
from edge_runtime.perception.pipeline import usable_cores

RESULTS = ("events.ndjson", "annotated.mp4", "contact_sheet.png", "summary.json", "balance.json")

INTERRUPTED = 130

_CORES = 4

PACING = "DEMO_PACING"
"""For tests, which need not watch: `every_frame` plays the demo's own clips as fast as they are seen."""


def main() -> int:
    """Clears the results of the run before, composes the configuration, and runs it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder of the results")
    parser.add_argument("--max-frames", type=int, help="stop after so many frames")
    wanted = parser.parse_args()
    out: Path = wanted.out
    with Signals() as signals:
        try:
            with _alone(out):
                configuration = _configuration(out)
                if isinstance(configuration, int):
                    return configuration
                return tell(Console(highlight=False), configuration, out, wanted.max_frames, signals)
        except EdgeRuntimeError as error:
            sys.stderr.write(f"error: {error}\n")
            return error.exit_code
        except OSError as error:
            sys.stderr.write(f"error: {error.filename}: {error.strerror}\n")
            return 1
        except KeyboardInterrupt:
            sys.stderr.write("demo: interrupted\n")
            return INTERRUPTED


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[None]:
    """The folder of the results, emptied, for one demo at a time."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EdgeRuntimeError(
                f"another demo writes to {out}: wait for it, or choose another OUT"
            ) from None
        for name in RESULTS:
            (out / name).unlink(missing_ok=True)
        yield


def _configuration(out: Path) -> Path | int:
    """The configuration of the device, or the exit code with which a model could not be imported."""
    model, rules = os.environ.get("DEMO_MODEL", ""), os.environ.get("DEMO_RULES", "")
    package = Path(model).resolve() if model else None
    accept: tuple[str, ...] = ()
    if model.lower().endswith(".onnx"):
        package = out.resolve() / "model"
        code = _import(model, package)
        if code:
            return code
        accept = _unknown_licence(package)
    clip = os.environ.get("DEMO_CLIP") or None
    wishes = Wishes(clip, package, Path(rules) if rules else None, accept)
    return compose(wishes, out.resolve(), Path.cwd(), os.environ.get(PACING) or _pace())


def _pace() -> str:
    """Real time where the machine is quick enough for it.

    On fewer cores the demo's model takes longer than a frame lasts: frames would queue up, events would be late.
    """
    return "real_time" if usable_cores() >= _CORES else "every_frame"


def _import(model: str, package: Path) -> int:
    """Makes a package of an ONNX file, in place of the one of the run before; its exit code."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(package)
    return run(["model", "import", model, "--out", str(package), "--yes"])


def _unknown_licence(package: Path) -> tuple[str, ...]:
    """The licence to accept for a file that its owner gave us to look at, said aloud."""
    licence = read_manifest(package).licence
    if licence.permissive:
        return ()
    sys.stderr.write(f"demo: the model's licence is {licence.spdx}: accepted for this demo alone\n")
    return (licence.spdx,)


if __name__ == "__main__":
    sys.exit(main())
