"""Starting a guard, and asking one: what the command line and the self-test do."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.guard.control import LARGEST_ANSWER
from edge_runtime.lifeline import told_parent
from edge_runtime.socket_path import short_socket_path


class NoGuard(EdgeRuntimeError):
    """Nobody answers at the guard's socket."""


def launch(settings: Mapping[str, object], **options: Any) -> "subprocess.Popen[bytes]":
    """Start a guard that ends with this process.

    Args:
        settings: as `settings.parse` reads them.
        options: of subprocess.Popen, such as where its standard streams go.

    Raises:
        OSError: it cannot be started.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC)
    try:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-m", "edge_runtime.guard", "--settings-fd", str(reading)],
            pass_fds=(reading,),
            env=told_parent(os.environ),
            **options,
        )
    finally:
        os.close(reading)
    # After the start: longer settings than a pipe holds are read while they are written.
    with os.fdopen(writing, "wb") as file:
        file.write(json.dumps(settings).encode())
    return process


def become(settings: Mapping[str, object]) -> NoReturn:
    """Turn this process into a guard: it keeps its process id, its environment and its standard streams.

    Nothing that is still buffered is lost, and no other thread may run.

    Args:
        settings: as `settings.parse` reads them.

    Raises:
        OSError: it cannot be started; this process is as before.
    """
    fd = os.memfd_create("edge-guard-settings", 0)  # inheritable; unlike a pipe it holds all of it
    try:
        os.write(fd, json.dumps(settings).encode())
        os.lseek(fd, 0, os.SEEK_SET)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # closed by whoever started this
                stream.flush()
        command = [sys.executable, "-m", "edge_runtime.guard", "--settings-fd", str(fd)]
        os.execve(sys.executable, command, os.environ)  # noqa: S606 - our own interpreter and module
    finally:
        os.close(fd)


def ask(path: Path, request: Mapping[str, object], wait_s: float = 2.0) -> dict[str, Any]:
    """Ask the guard, and wait for its answer.

    Args:
        path: of its control socket.
        request: see `control`.
        wait_s: for the answer.

    Raises:
        NoGuard: nobody answers there in time, or not in JSON.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as end:
        end.settimeout(wait_s)
        try:
            end.bind("")  # an abstract address of its own, so that it can be answered
            with short_socket_path(path) as name:
                end.sendto(json.dumps(request).encode(), name)
            found = json.loads(end.recv(LARGEST_ANSWER))
        except TimeoutError:
            raise NoGuard(f"the guard at {path} does not answer; it may be stopped or too busy") from None
        except (OSError, ValueError, RecursionError) as error:
            why = getattr(error, "strerror", None) or str(error)
            hint = "be its user" if isinstance(error, PermissionError) else "is the runtime running?"
            raise NoGuard(f"no guard answers at {path}: {why}; {hint}") from None
    if not isinstance(found, dict):
        raise NoGuard(f"what answers at {path} is no guard")
    return found
