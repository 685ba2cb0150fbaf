"""Perception's end of a trial: a candidate in a process of its own is opened, and shown frames now and then.

The evaluator only leaves a frame here when nobody is at one. A thread hands it over and waits for the answer, so
that the candidate costs the cameras one copy of a frame, at most for the share of time that it is given.
"""

import contextlib
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Final

import numpy as np
from pydantic import ValidationError

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.lifeline import signal_name, told_parent
from edge_runtime.node.hot_swap.agreement import Objects
from edge_runtime.node.hot_swap.pacing import paced
from edge_runtime.node.hot_swap.patience import MOST_STILL_S, Patience, rest_s, run_s, used_s
from edge_runtime.node.hot_swap.shadow_count import ShadowCount
from edge_runtime.node.hot_swap.trial_records import (
    MAX_LINE_BYTES,
    Saw,
    Shown,
    TrialOpened,
    TrialRequest,
)
from edge_runtime.protocol.swap import ShadowFigures
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.sources import Frame

_REST_GPU: Final = 9.0
"""After a frame the candidate rests for so many times what it took: a GPU knows no priority between processes, and
gives it a tenth at most. On the CPU it follows from the share that the configuration gives."""

_LOOK_MS: Final = 1000
_GONE_S: Final = 5.0


class Trial:
    """A candidate in a process of its own.

    Args:
        request: what is tried.
        clock: monotonic time.

    Attributes:
        opened: what came of opening it; None while nobody knows.
    """

    def __init__(self, request: TrialRequest, clock: Clock) -> None:
        self._request, self._clock = request, clock
        self.opened: TrialOpened | None = None
        self._changed = threading.Condition()
        self._shadowing, self._ending = False, False
        self._offered: tuple[Frame, Objects] | None = None
        self._ready_ns: int | None = None  # from when on a frame is welcome; None while one is looked at
        self._child: subprocess.Popen[bytes] | None = None
        self._figures = ShadowCount(clock)
        self._thread = threading.Thread(target=self._run, name=f"trial-{request.name}"[:15], daemon=True)

    def start(self) -> None:
        """Begin to open it."""
        self._thread.start()

    def shadow(self, *, on: bool) -> None:
        """Show it frames from now on, or no more."""
        with self._changed:
            self._shadowing = on
            self._figures.turn(on=on)
            self._changed.notify_all()

    def wants(self) -> bool:
        """Whether a frame is welcome now; costs next to nothing, so it may be asked of every frame."""
        ready_ns = self._ready_ns
        return self._shadowing and ready_ns is not None and self._clock.monotonic_ns() >= ready_ns

    def offer(self, frame: Frame, objects: Objects) -> None:
        """Show it a frame in which the model in use found `objects`; never waits."""
        with self._changed:
            if self._ready_ns is not None:
                self._offered, self._ready_ns = (frame, objects), None
                self._changed.notify_all()

    def figures(self) -> ShadowFigures:
        """What came of the frames so far; from any thread."""
        return self._figures.figures(None if self.opened is None else self.opened.running_ms)

    def end(self) -> None:
        """End the process, whatever it is at, and wait until it is gone, or for a few seconds."""
        with self._changed:
            self._ending = True
            if self._child is not None:
                self._child.kill()
            self._changed.notify_all()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(2 * _GONE_S)

    # ---- the thread, which is also the process's parent: the process ends with it

    def _run(self) -> None:
        mine, theirs = socket.socketpair()
        with mine:
            try:
                with theirs, self._changed:
                    if self._ending:
                        return
                    self._child = child = self._spawn(theirs)
                self._talk(mine, child)
            except OSError as error:
                self._fail(UpdateCode.LOAD, f"the process that tries it: {error.strerror or error}")
            except ValidationError:
                self._fail(UpdateCode.LOAD, "the process that tries it does not say what it should")
            finally:
                self._over()

    def _spawn(self, theirs: socket.socket) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "edge_runtime.node.hot_swap.trial_process", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            env=told_parent(os.environ),
        )

    def _talk(self, line: socket.socket, child: "subprocess.Popen[bytes]") -> None:
        request, on_cpu = self._request, self._request.effective == "cpu"
        # on a GPU it times by the wall clock, and to stop it would not stop what the GPU has begun
        share = request.share if on_cpu else 1.0
        with line.makefile("rb") as reading:
            line.sendall(request.model_dump_json().encode() + b"\n")
            with paced(child, share):
                lost = self._waits_for(line, child)
                if lost is not None:
                    self._fail(UpdateCode.LOAD, lost)
                    return
                line.settimeout(MOST_STILL_S)
                answer = reading.readline(MAX_LINE_BYTES)
            if not answer:
                return
            self.opened = TrialOpened.model_validate_json(answer)
            if self.opened.code is not None:
                return
            line.settimeout(2 * run_s(1.0, on_cpu=on_cpu))  # the process's own limit for a run is shorter
            self._ready_ns = self._clock.monotonic_ns()
            while (offered := self._next()) is not None:
                if not self._show(line, *offered, reading.readline):
                    return

    def _waits_for(self, line: socket.socket, child: "subprocess.Popen[bytes]") -> str | None:
        """Until the process says something, or has gone; why it is waited for no longer, or None."""
        request = self._request
        builds_s = 2 * request.engines.build_budget if "tensorrt" in request.settings.providers else 0.0
        patience = Patience(most_still_s=MOST_STILL_S + builds_s)  # while another process builds it is still
        listening = select.poll()
        listening.register(line, select.POLLIN)
        while not listening.poll(_LOOK_MS):
            try:
                lost = patience.lost(used_s(child.pid), self._clock.monotonic_ns() / NS_PER_S)
            except OSError:
                return None  # it has just gone
            if lost is not None:
                return lost
        return None

    def _next(self) -> tuple[Frame, Objects] | None:
        with self._changed:
            while not self._ending:
                if self._child is not None and self._child.poll() is not None:
                    return None  # it died between two frames
                if self._offered is not None:
                    offered, self._offered = self._offered, None
                    return offered
                self._changed.wait(1.0)
        return None

    def _show(
        self, line: socket.socket, frame: Frame, objects: Objects, read: Callable[[int], bytes]
    ) -> bool:
        """Show one frame; False where the process has gone."""
        data = np.ascontiguousarray(frame.image).data.cast("B")
        begun = self._clock.monotonic_ns()
        line.sendall(Shown(height=frame.height, width=frame.width).model_dump_json().encode() + b"\n")
        line.sendall(data)
        answer = read(MAX_LINE_BYTES)
        if not answer:
            return False
        saw, opened = Saw.model_validate_json(answer), self.opened
        if opened is None:
            raise AssertionError("frames are shown once it was opened")
        self._figures.add(objects, saw, opened.labels)
        ended = self._clock.monotonic_ns()
        took_s = (ended - begun) / NS_PER_S
        rest = rest_s(took_s, saw.used_ms / 1e3, self._request.share) if opened.on_cpu else took_s * _REST_GPU
        self._ready_ns = ended + int(rest * NS_PER_S)
        return True

    def _over(self) -> None:
        """However it ended, the process is gone, and it is known why."""
        child = self._child
        if child is None:
            return
        if child.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(1.0)
        child.kill()
        try:
            code = child.wait(_GONE_S)
        except subprocess.TimeoutExpired:  # a driver holds it; nobody waits for that
            code = child.returncode or 0
        self._shadowing, self._ready_ns, self._offered = False, None, None
        self._figures.turn(on=False)
        if self._ending or (self.opened is not None and self.opened.code is not None):
            return
        how = f"was ended by {signal_name(-code)}" if code < 0 else f"left with {code}"
        self._fail(UpdateCode.LOAD, f"the process that tried it {how}; what it said is in the log")

    def _fail(self, code: UpdateCode, text: str) -> None:
        if not self._ending:  # then it was ended on purpose
            self.opened = TrialOpened(code=code, text=text[:300])
