"""What the settings name, made: inputs, the output, and the socket that proposals come to."""

import os
import socket
from pathlib import Path

from edge_runtime.guard.motion_gate.estop import DatagramInput, DescriptorInput, FileInput, Input
from edge_runtime.guard.motion_gate.outputs import DatagramOutput, ExecOutput, Output
from edge_runtime.guard.motion_gate.settings import (
    DatagramStop,
    DescriptorStop,
    FileStop,
    ToDatagrams,
    ToPrograms,
)


def stop_input(stop: FileStop | DescriptorStop | DatagramStop) -> Input:
    """One channel of the emergency stop.

    Raises:
        OSError: its socket cannot be made.
    """
    if isinstance(stop, FileStop):
        return FileInput(stop.path)
    if isinstance(stop, DescriptorStop):
        return DescriptorInput(stop.fd)
    return DatagramInput(stop.path, stop.fresh_ns)


def output_to(output: ToDatagrams | ToPrograms) -> Output:
    """What carries commands to the actuator."""
    if isinstance(output, ToPrograms):
        return ExecOutput(output.command, output.safe, output.limit_ns)
    return DatagramOutput(output.address)


def listen(path: Path) -> tuple[socket.socket, tuple[int, int]]:
    """A socket at the path, in the place of whatever listened there before, and what tells it from another.

    Raises:
        OSError: it cannot be made there.
    """
    staged = path.with_name(f".{path.name[:40]}.{os.getpid()}")
    staged.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        listening.setblocking(False)  # noqa: FBT003 - the call takes no keyword
        listening.bind(str(staged))
        staged.chmod(0o660)
        found = staged.stat()
        staged.replace(path)
    except OSError:
        listening.close()
        staged.unlink(missing_ok=True)
        raise
    return listening, (found.st_dev, found.st_ino)


def is_replaced(path: Path, inode: tuple[int, int]) -> bool:
    """Whether another socket lies at the path now; one that is gone was replaced by none."""
    try:
        found = path.stat()
    except OSError:
        return False
    return (found.st_dev, found.st_ino) != inode
