"""A small file system that can be frozen, so that whoever writes to it sleeps where no signal reaches it.

    python -m edge_runtime.guard.selftest.frozen FOLDER LONGEST_S

That is the keeper, a process of its own, which takes `freeze` and `thaw`, one a line, and says `done` to each. It
thaws by itself after LONGEST_S, and takes everything down when its input ends, so that nothing stays frozen when
whoever asked for it fails. Only root can mount; the kernel needs loop devices and ext4.
"""

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

LONGEST_S = 15.0
"""A trial is over in a fraction of this."""

_FREEZE, _THAW = 0xC0045877, 0xC0045878  # linux/fs.h
_IMAGE_BYTES = 4 << 20
_PATIENCE_S = 30.0


class CannotFreeze(Exception):
    """This machine does not allow it; says why."""


class FrozenDisk:
    """The keeper of one such file system, asked.

    Attributes:
        folder: where it is mounted.
    """

    def __init__(self, keeper: "subprocess.Popen[str]", folder: Path) -> None:
        self._keeper, self.folder = keeper, folder

    def freeze(self) -> None:
        """From now on writers sleep."""
        self._tell("freeze")

    def thaw(self) -> None:
        """Writers go on, or end if they were killed meanwhile."""
        self._tell("thaw")

    def _tell(self, word: str) -> None:
        assert self._keeper.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._keeper.stdin.write(word + "\n")
            self._keeper.stdin.flush()
        _answer(self._keeper)


@contextlib.contextmanager
def frozen_disk(folder: Path) -> Iterator[FrozenDisk]:
    """A file system below a folder, taken down at the end whatever happens.

    Args:
        folder: empty, of its own; holds 4 MiB.

    Raises:
        CannotFreeze: only root can mount, or the kernel or a program for it is not there.
    """
    keeper = subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-m", __name__, str(folder), str(LONGEST_S)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _answer(keeper)
        yield FrozenDisk(keeper, folder / "mounted")
    finally:
        for stream in (keeper.stdin, keeper.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        keeper.wait()


def _answer(keeper: "subprocess.Popen[str]") -> None:
    assert keeper.stdout is not None
    ready, _, _ = select.select([keeper.stdout], [], [], _PATIENCE_S)
    said = keeper.stdout.readline().strip() if ready else "the keeper of the file system does not answer"
    if said != "done":
        raise CannotFreeze(said or "the keeper of the file system ended")


def _mounted(folder: Path) -> Path:
    """Make it.

    Raises:
        OSError, CannotFreeze: it cannot be made.
    """
    image, mounted = folder / "image", folder / "mounted"
    with image.open("wb") as file:
        file.truncate(_IMAGE_BYTES)
    mounted.mkdir()
    for command in (
        ["mkfs.ext4", "-q", "-F", str(image)],
        ["mount", "-o", "loop", str(image), str(mounted)],
    ):
        done = subprocess.run(  # noqa: S603 - the system's own programs
            command, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise CannotFreeze(f"{command[0]}: {' '.join(done.stderr.split())}")
    return mounted


def _keep(mounted: Path, longest_s: float) -> None:
    """Do what is asked until the input ends."""
    handle, frozen = os.open(mounted, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), False
    try:
        fcntl.ioctl(handle, _FREEZE, 0)  # whether it can be is known before anybody relies on it
        fcntl.ioctl(handle, _THAW, 0)
        _say("done")
        while True:
            ready, _, _ = select.select([0], [], [], longest_s if frozen else None)
            asked = os.read(0, 64).decode().strip() if ready else "thaw"
            if not asked:
                return
            if (asked == "freeze") is not frozen:
                fcntl.ioctl(handle, _THAW if frozen else _FREEZE, 0)
                frozen = not frozen
            if ready:
                _say("done")
    finally:
        with contextlib.suppress(OSError):
            if frozen:
                fcntl.ioctl(handle, _THAW, 0)
        os.close(handle)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(folder: Path, longest_s: float) -> int:
    """Make it, keep it, take it down; exit code 1 where it cannot be made."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    try:
        _keep(_mounted(folder), longest_s)
    except (OSError, CannotFreeze) as error:
        with contextlib.suppress(BrokenPipeError):
            _say(f"cannot make a file system to freeze: {error}")
        return 1
    finally:
        # lazily: a worker that has just been let go may still have its file open
        command = ["umount", "-l", str(folder / "mounted")]
        subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - the system's own program
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2])))
