"""Size of the device install, what must not be in it, and how long `--help` takes."""

import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BANNED = ("torch", "scipy", "matplotlib", "onnx", "sympy")
HELP_RUNS = 15


def main() -> None:
    """Print size in MB (10^6 bytes of files), the largest parts, and the median time of `--help`."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder) / "venv"
        venv.create(environment, with_pip=True)
        python = environment / "bin" / "python"
        site = next((environment / "lib").glob("python3*/site-packages"))
        before = {path.name for path in site.iterdir()}
        command = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", f"{ROOT}[device]"]
        subprocess.run([*command, "-c", str(ROOT / "requirements.lock")], check=True)
        sizes = {path.name: size(path) for path in site.iterdir() if path.name not in before}
        total = sum(sizes.values())
        largest = sorted(sizes.items(), key=lambda item: -item[1])[:6]
        print(f"device install: {total / 1e6:.0f} MB; " + ", ".join(f"{n} {s / 1e6:.0f}" for n, s in largest))
        print("banned in it:", [name for name in BANNED if (site / name).exists()] or "none")
        times = []
        for _ in range(HELP_RUNS):
            begun = time.perf_counter()
            subprocess.run(
                [str(environment / "bin" / "edge-runtime"), "--help"], check=True, capture_output=True
            )
            times.append(time.perf_counter() - begun)
    print(f"edge-runtime --help: median {statistics.median(times):.3f} s of {HELP_RUNS}", file=sys.stdout)


def size(path: Path) -> int:
    """Bytes of a file or of all files below a folder."""
    return (
        path.stat().st_size
        if path.is_file()
        else sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
    )


if __name__ == "__main__":
    main()
