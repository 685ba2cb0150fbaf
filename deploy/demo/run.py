"""`make demo`: runs the driver-monitoring camera, or whatever CLIP, MODEL and RULES name."""

import argparse
import contextlib
import os
import shutil
import sys
from pathlib import Path

from deploy.demo.compose import DEMO, Wishes, compose
from edge_runtime.cli.main import run
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.packages import read_manifest

RESULTS = ("events.ndjson", "annotated.mp4", "contact_sheet.png", "summary.json")


def main() -> int:
    """Clears the results of the run before, composes the configuration, and runs it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder of the results")
    parser.add_argument("--max-frames", type=int, help="stop after so many frames")
    wanted = parser.parse_args()
    out: Path = wanted.out
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in RESULTS:
            (out / name).unlink(missing_ok=True)
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
        config = DEMO if wishes == Wishes() else compose(wishes, out, Path.cwd())
    except EdgeRuntimeError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except OSError as error:
        sys.stderr.write(f"error: {error.filename}: {error.strerror}\n")
        return 1
    arguments = ["run", str(config), "--events", str(out / RESULTS[0]), "--annotate", str(out / RESULTS[1])]
    arguments += ["--contact-sheet", str(out / RESULTS[2]), "--summary", str(out / RESULTS[3])]
    if wanted.max_frames:
        arguments += ["--max-frames", str(wanted.max_frames)]
    return run(arguments)


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
