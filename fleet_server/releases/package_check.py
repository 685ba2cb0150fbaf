"""`edge-runtime model check` in a process of its own: the golden vectors run before a release is published.

A package is signed by two people when it comes here, and still its graph is run by a process that may fail: one at
a time, behind all others, with an end to its patience. A verdict is kept for as long as the server runs.

The process works in an empty folder: Python puts its working directory in front of all modules, and a file of the
package that is called `json.py` would be run.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.lifeline import told_parent
from fleet_server.releases.check_process import SAFE_PATH

_KEPT = 256
_OUT_BYTES = 1 << 20
_MISSING = 2
"""Exit code of a command line whose parts are not installed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the check found.

    Attributes:
        fit: whether the package may be published.
        text: why not.
        lasting: whether asking again would find the same.
    """

    fit: bool
    text: str = ""
    lasting: bool = True


class PackageChecks:
    """Runs checks one after the other.

    Args:
        deadline_s: one check takes no longer.
        command: before the folder; the machine's own runtime when None.
    """

    def __init__(self, deadline_s: float, command: Sequence[str] | None = None) -> None:
        self._deadline_s = deadline_s
        self._command = command or [sys.executable, *SAFE_PATH, "-m", "fleet_server.releases.check_process"]
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._verdicts: OrderedDict[str, Verdict] = OrderedDict()
        self._running: set[str] = set()

    def ask(self, digest: str, folder: Callable[[], AbstractContextManager[Path]]) -> Verdict | None:
        """What is known of a package; the first who asks has it checked, in the background.

        Args:
            digest: of the package.
            folder: gives the package's folder for the time of the check.

        Returns:
            None while the check runs. A verdict that is not lasting is given once.
        """
        with self._lock:
            found = self._verdicts.get(digest)
            if found is not None:
                if not found.lasting:
                    del self._verdicts[digest]
                return found
            if digest not in self._running:
                self._running.add(digest)
                threading.Thread(
                    target=self._run, args=(digest, folder), name=f"check-{digest[7:15]}", daemon=True
                ).start()
        return None

    def _run(self, digest: str, folder: Callable[[], AbstractContextManager[Path]]) -> None:
        try:
            with self._turn, folder() as directory:
                verdict = self._check(digest, directory)
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever asked must be told
            verdict = Verdict(fit=False, text=f"the check did not run: {error}"[:300], lasting=False)
        with self._lock:
            self._verdicts[digest] = verdict
            self._running.discard(digest)
            while len(self._verdicts) > _KEPT:
                self._verdicts.popitem(last=False)

    def _check(self, digest: str, directory: Path) -> Verdict:
        environment = told_parent(
            {name: value for name, value in os.environ.items() if not name.startswith("FLEET_")}
        )
        try:
            with tempfile.TemporaryDirectory(prefix="package-check-") as empty:
                done = subprocess.run(  # noqa: S603 - our own interpreter, and a folder that we made
                    [*self._command, str(directory.absolute())],
                    capture_output=True,
                    env=environment,
                    cwd=empty,
                    timeout=self._deadline_s,
                    check=False,
                    stdin=subprocess.DEVNULL,
                )
        except subprocess.TimeoutExpired:
            return Verdict(
                fit=False,
                text=f"the golden vectors were not through within {self._deadline_s:.0f} s",
                lasting=False,
            )
        return verdict_of(digest, done.returncode, done.stdout[:_OUT_BYTES], done.stderr[-2000:])


def verdict_of(digest: str, code: int, out: bytes, err: bytes) -> Verdict:
    """The verdict in what `edge-runtime model check --json` printed. Pure."""
    try:
        report = json.loads(out)
        problems = [one for one in report["problems"] if one["severity"] == "error"]
        if report["fit"] is True and code == 0 and report["digest"] == digest:
            return Verdict(fit=True)
        text = "; ".join(f"{one['code']}: {one['text']}" for one in problems) or "it is another package"
        return Verdict(fit=False, text=text[:400])
    except (ValueError, KeyError, TypeError):
        pass
    said = (err.decode(errors="replace").strip().splitlines() or ["nothing"])[-1]
    if code == _MISSING:
        return Verdict(
            fit=False,
            text=f"this server cannot run models, so it cannot check the golden vectors: install "
            f"'edge-fleet-runtime[server,device]' on it ({said[:200]})",
            lasting=False,
        )
    return Verdict(fit=False, text=f"the check ended with code {code}: {said[:200]}", lasting=False)
