"""`make demo-rollout`: signed versions of the demo's model go out to 50 simulated devices and a real one, in rings.

A good version reaches everybody: 2, 10, 50, 100 %. A damaged one, which looks as good on paper, is stopped by the
devices of its first ring and rolled back. About three minutes; the exit code says whether it came out so.
"""

import argparse
import fcntl
import sys
from pathlib import Path

from rich.console import Console

from deploy.demo.rollout.story import LOG, RESULT, tell
from deploy.demo.signals import Signals
from edge_runtime.errors import EdgeRuntimeError

INTERRUPTED = 130


def main() -> int:
    """Run the demo; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/demo-rollout"), help="folder of the results")
    parser.add_argument(
        "--preset", choices=("single", "team"), default="team", help="of the keys: one person, or three"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the simulated devices")
    wanted = parser.parse_args()
    out: Path = wanted.out
    with Signals():
        try:
            out.mkdir(parents=True, exist_ok=True)
            with (out / ".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for name in (RESULT, LOG):
                    (out / name).unlink(missing_ok=True)
                return tell(Console(highlight=False), out, wanted.preset, wanted.seed)
        except BlockingIOError:
            sys.stderr.write(f"error: another demo writes to {out}: wait for it, or choose another --out\n")
            return 1
        except EdgeRuntimeError as error:
            sys.stderr.write(f"error: {error}\n")
            return error.exit_code
        except OSError as error:
            sys.stderr.write(f"error: {error.filename}: {error.strerror}\n")
            return 1
        except KeyboardInterrupt:
            sys.stderr.write("demo-rollout: interrupted\n")
            return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
