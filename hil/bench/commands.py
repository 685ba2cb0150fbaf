"""Commands of this machine and of machines that OpenSSH reaches."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hil.bench.records import Ssh
from hil.parts import Answer
from hil.problems import DeviceError, RigError

_UNREACHED = 255
"""What ssh itself ends with where it did not come through."""

_CONNECT_S = 5


def run_here(command: Sequence[str], within_s: float) -> Answer:
    """Run a command of this machine to its end.

    Raises:
        RigError: it cannot be started, or did not end in time.
    """
    words = [os.path.expandvars(word) for word in command]
    try:
        done = subprocess.run(  # noqa: S603 - of the rig's file
            words, capture_output=True, text=True, errors="replace", timeout=within_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise RigError(f"{shlex.join(command)} did not end within {within_s:g} s") from None
    except OSError as error:
        raise RigError(f"{shlex.join(command)} cannot be started: {error.strerror}") from None
    return Answer(done.returncode, done.stdout, done.stderr)


def done_here(command: Sequence[str], within_s: float) -> str:
    """What a command of this machine printed.

    Raises:
        RigError: it failed.
    """
    answer = run_here(command, within_s)
    if answer.code:
        said = (answer.err or answer.out).strip()[-300:]
        raise RigError(f"{shlex.join(command)} ended with {answer.code}: {said}")
    return answer.out


def lacking_program(word: str) -> list[str]:
    """What this machine lacks for a command, in words."""
    if os.sep in word:
        return [] if os.access(word, os.X_OK) else [f"{word} is no program here"]
    return [] if shutil.which(word) else [f"the program {word} is not installed"]


class SshShell:
    """`Shell` over OpenSSH.

    Args:
        at: the machine.
    """

    def __init__(self, at: Ssh) -> None:
        self._at = at
        key = ["-i", str(Path(at.key).expanduser())] if at.key else []
        self._ssh = [
            *("ssh", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_S}", "-p", str(at.port)),
            *key,
            f"{at.user}@{at.host}",
            "--",
        ]

    def run(self, command: Sequence[str], within_s: float = 60.0) -> Answer:
        """Run a command there to its end.

        Raises:
            DeviceError: it cannot be reached, or it did not end in time.
        """
        try:
            done = subprocess.run(  # noqa: S603 - of the rig's file
                [*self._ssh, shlex.join(command)],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=within_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise DeviceError(f"{self._at.host}: {command[0]} did not end within {within_s:g} s") from None
        except OSError as error:
            raise DeviceError(f"ssh cannot be started: {error.strerror}") from None
        if done.returncode == _UNREACHED:
            raise DeviceError(f"{self._at.host} is not reached: {done.stderr.strip()[-200:]}")
        return Answer(done.returncode, done.stdout, done.stderr)

    def lacks(self) -> list[str]:
        """What this machine lacks for it."""
        found = lacking_program("ssh")
        if self._at.key and not Path(self._at.key).expanduser().is_file():
            found.append(f"there is no key {self._at.key}")
        return found

    @property
    def told(self) -> str:
        """Where it leads."""
        return f"{self._at.user}@{self._at.host}:{self._at.port}"
