"""Environments of their own for what the project is compared with; made on the first use, under .cache."""

import hashlib
import subprocess
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def python_of(name: str, requirements: Path) -> Path:
    """The interpreter of `.cache/NAME`, with exactly these requirements installed.

    Raises:
        subprocess.CalledProcessError: pip could not install them.
    """
    folder = ROOT / ".cache" / name
    python = folder / "bin" / "python"
    complete = folder / ".complete"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if not complete.is_file() or complete.read_text(encoding="ascii") != wanted:
        venv.create(folder, with_pip=True, clear=True)
        install = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--quiet",
            "--disable-pip-version-check",
            "-r",
            str(requirements),
        ]
        subprocess.run([str(python), *install], check=True)
        complete.write_text(wanted, encoding="ascii")
    return python


def peers() -> Path:
    """The interpreter that has the other tracker."""
    return python_of("bench-venv", ROOT / "tests" / "bench" / "requirements-peers.txt")
