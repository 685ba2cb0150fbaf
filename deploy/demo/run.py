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
        package, code = _package(os.environ.get("DEMO_MODEL", ""), out)
        if code:
            return code
        rules = os.environ.get("DEMO_RULES", "")
        wishes = Wishes(os.environ.get("DEMO_CLIP") or None, package, Path(rules) if rules else None)
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


def _package(model: str, out: Path) -> tuple[Path | None, int]:
    """The package to use and an exit code: an ONNX file is imported into `out` first."""
    if not model:
        return None, 0
    if not model.lower().endswith(".onnx"):
        return Path(model).resolve(), 0
    imported = out / "model"
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(imported)
    return imported.resolve(), run(["model", "import", model, "--out", str(imported), "--yes"])


if __name__ == "__main__":
    sys.exit(main())
