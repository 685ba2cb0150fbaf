"""Perception's socket, asked: what runs, and what to load, shadow, take or leave."""

import contextlib
import socket
from pathlib import Path

from pydantic import ValidationError

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.protocol.release import TrackerRule
from edge_runtime.protocol.release_values import Values
from edge_runtime.protocol.swap import (
    MAX_LINE_BYTES,
    Activate,
    Ask,
    Discard,
    Load,
    Look,
    Revert,
    Settle,
    Shadow,
    SlotLook,
    SwapAnswer,
    line_of,
)
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.socket_path import short_socket_path
from edge_runtime.updates.machine.observed import (
    Candidate,
    GivenUp,
    InUse,
    Shadowed,
    SlotView,
)
from edge_runtime.updates.problems import UpdateRefused

ANSWER_S = 3.0
"""Perception answers at once whatever takes long; a longer silence is no answer."""


class PerceptionClient:
    """`Taking` over the socket; one connection, made again when it is lost.

    Args:
        path: of the socket.
        clock: bounds each call.
        answer_s: how long an answer may take.
    """

    def __init__(self, path: Path, clock: Clock, answer_s: float = ANSWER_S) -> None:
        self._path, self._clock, self._answer_s = path, clock, answer_s
        self._socket: socket.socket | None = None

    def look(self, slot: str) -> SlotView | None:
        """How a slot stands; None where nobody answers, or where no camera looks through such a model."""
        try:
            answer = self._ask(Look(slot=slot))
        except UpdateRefused:
            return None
        found = next((one for one in answer.slots if one.slot == slot), None)
        return None if found is None else view_of(found, answer)

    def load(self, slot: str, release: str, folder: Path, values: Values) -> None:
        """Begin to open a candidate; only a configuration has values of a device."""
        self._ask(Load(slot=slot, release=release, package_dir=str(folder.absolute()), values=dict(values)))

    def shadow(self, slot: str, *, on: bool) -> None:
        """Show it frames, or no more."""
        self._ask(Shadow(slot=slot, on=on))

    def activate(self, slot: str, release: str, trackers: TrackerRule) -> None:
        """Let it take over."""
        self._ask(Activate(slot=slot, release=release, trackers=trackers))

    def settle(self, slot: str) -> None:
        """Free the one before."""
        self._ask(Settle(slot=slot))

    def revert(self, slot: str, release: str | None, folder: Path | None) -> None:
        """Let the one before take over again."""
        place = None if folder is None else str(folder.absolute())
        self._ask(Revert(slot=slot, release=release, package_dir=place))

    def discard(self, slot: str) -> None:
        """Free the candidate."""
        self._ask(Discard(slot=slot))

    def close(self) -> None:
        """Ask nothing more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _ask(self, ask: Ask) -> SwapAnswer:
        """One line there, one back.

        Raises:
            UpdateRefused: perception refuses it, or does not answer.
        """
        had_one = self._socket is not None
        try:
            try:
                line = self._exchange(line_of(ask))
            except OSError:
                self.close()
                if not had_one:
                    raise
                line = self._exchange(line_of(ask))  # an idle connection is closed by the other side
            answer = SwapAnswer.model_validate_json(line)
        except (OSError, ValidationError) as error:
            self.close()
            why = getattr(error, "strerror", None) or type(error).__name__
            raise UpdateRefused(UpdateCode.LOAD, f"perception does not answer: {why}", again=True) from None
        if not answer.ok:
            raise UpdateRefused(answer.code or UpdateCode.DEFECT, answer.text, again=answer.again)
        return answer

    def _exchange(self, line: bytes) -> bytes:
        until_ns = self._clock.monotonic_ns() + int(self._answer_s * NS_PER_S)
        if self._socket is None:
            self._socket = self._connected()
        self._socket.settimeout(self._answer_s)
        self._socket.sendall(line)
        found = b""
        while not found.endswith(b"\n"):
            left_s = (until_ns - self._clock.monotonic_ns()) / NS_PER_S
            if left_s <= 0:
                raise TimeoutError
            self._socket.settimeout(left_s)
            piece = self._socket.recv(1 << 16)
            if not piece or len(found) > 4 * MAX_LINE_BYTES:
                raise ConnectionResetError
            found += piece
        return found

    def _connected(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            connection.settimeout(self._answer_s)
            with short_socket_path(self._path) as name:
                connection.connect(name)
        except BaseException:
            with contextlib.suppress(OSError):
                connection.close()
            raise
        return connection


def view_of(look: SlotLook, answer: SwapAnswer) -> SlotView:
    """A slot as the machine goes by it."""
    running = look.running
    in_use = InUse(
        release=running.release,
        package=running.package,
        process=str(answer.pid),
        seconds=running.seconds,
        frames=running.frames,
        unanswered=running.unanswered,
        nonfinite=running.nonfinite,
        events=running.events,
        latency_p50_ms=running.p50_ms,
        latency_p95_ms=running.p95_ms,
        celsius=answer.temperature_c,
    )
    candidate = None
    if look.candidate is not None:
        figures = look.candidate.shadow
        candidate = Candidate(
            release=look.candidate.release,
            loading=look.candidate.state,
            code=look.candidate.code,
            text=look.candidate.text,
            shadow=Shadowed(
                seconds=figures.seconds,
                frames=figures.frames,
                unanswered=figures.unanswered,
                nonfinite=figures.nonfinite,
                running_objects=figures.running_objects,
                found=figures.found,
                candidate_objects=figures.candidate_objects,
                confirmed=figures.confirmed,
                running_ms=figures.running_ms,
                candidate_ms=figures.candidate_ms,
                on=figures.on,
            ),
        )
    up = look.given_up
    given_up = None if up is None else GivenUp(up.release, up.code, up.text)
    return SlotView(in_use, candidate, given_up)
