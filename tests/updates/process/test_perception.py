"""The client of perception's socket, against the product's own server; what it makes of silence and refusals."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_runtime.clock import SystemClock
from edge_runtime.node.hot_swap.server import SwapServer
from edge_runtime.protocol.release import TrackerRule
from edge_runtime.protocol.swap import (
    Activate,
    Candidate,
    CandidateState,
    GivenUp,
    Load,
    Look,
    Revert,
    RunningModel,
    ShadowFigures,
    SlotLook,
    SwapAnswer,
    line_of,
    read_ask,
)
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.process.perception import PerceptionClient

NEW, OLD = "aa" * 32, "bb" * 32
FIGURES = ShadowFigures(
    on=True,
    seconds=9,
    frames=90,
    running_objects=10,
    found=9,
    candidate_objects=8,
    confirmed=8,
    running_ms=20,
    candidate_ms=30,
)
LOOK = SlotLook(
    slot="detector",
    running=RunningModel(release=OLD, package=f"sha256:{OLD}", seconds=7, frames=70, events=3, p95_ms=21),
    candidate=Candidate(release=NEW, state=CandidateState.LOADED, seconds=2, shadow=FIGURES),
    given_up=GivenUp(release=NEW, code=UpdateCode.CRASH_LOOP, text="3 times"),
)


@pytest.fixture
def asked() -> list[object]:
    return []


@pytest.fixture
def answers() -> list[SwapAnswer]:
    return []


@pytest.fixture
def client(tmp_path: Path, asked: list[object], answers: list[SwapAnswer]) -> Iterator[PerceptionClient]:
    def answer(line: bytes) -> bytes:
        asked.append(read_ask(line))
        found = (
            answers.pop(0) if answers else SwapAnswer(ok=True, pid=7, up_s=9, temperature_c=55, slots=(LOOK,))
        )
        return line_of(found)

    path = tmp_path / "perception.sock"
    server = SwapServer(path, answer)
    server.start()
    with contextlib.closing(PerceptionClient(path, SystemClock())) as found:
        yield found
    server.stop()


def test_a_look_is_told_as_the_machine_goes_by_it(client: PerceptionClient, asked: list[object]) -> None:
    view = client.look("detector")
    assert view is not None
    assert (view.in_use.release, view.in_use.process, view.in_use.answered) == (OLD, "7", 70)
    assert (view.in_use.latency_p95_ms, view.in_use.celsius, view.in_use.events) == (21, 55, 3)
    assert view.candidate is not None
    assert (view.candidate.release, view.candidate.loading) == (NEW, CandidateState.LOADED)
    assert view.candidate.shadow.agreement == 0.9
    assert view.given_up is not None
    assert view.given_up.code is UpdateCode.CRASH_LOOP
    assert asked == [Look(slot="detector")]
    assert client.look("another") is None


def test_what_it_asks_for(client: PerceptionClient, asked: list[object], tmp_path: Path) -> None:
    client.load("detector", NEW, tmp_path, {})
    client.activate("detector", NEW, TrackerRule.CONTINUE)
    client.revert("detector", None, None)
    client.revert("detector", OLD, tmp_path)
    assert asked == [
        Load(slot="detector", release=NEW, package_dir=str(tmp_path)),
        Activate(slot="detector", release=NEW, trackers=TrackerRule.CONTINUE),
        Revert(slot="detector"),
        Revert(slot="detector", release=OLD, package_dir=str(tmp_path)),
    ]


@pytest.mark.parametrize(
    ("code", "again"), [(UpdateCode.LABELS, False), (UpdateCode.ACTIVATION, True), (UpdateCode.LABELS, True)]
)
def test_a_refusal_is_of_the_release_or_of_the_moment(
    client: PerceptionClient,
    answers: list[SwapAnswer],
    tmp_path: Path,
    code: UpdateCode,
    again: bool,
) -> None:
    answers.append(SwapAnswer(ok=False, code=code, text="no", again=again, pid=7, up_s=1))
    with pytest.raises(UpdateRefused) as refused:
        client.load("detector", NEW, tmp_path, {})
    assert refused.value.again is again
    assert client.look("detector") is not None, "the connection goes on"


def test_nobody_there(tmp_path: Path) -> None:
    client = PerceptionClient(tmp_path / "none.sock", SystemClock())
    assert client.look("detector") is None
    with pytest.raises(UpdateRefused) as refused:
        client.settle("detector")
    assert refused.value.again


def test_perception_that_was_started_anew_is_asked_again(tmp_path: Path, asked: list[object]) -> None:
    path = tmp_path / "perception.sock"
    client = PerceptionClient(path, SystemClock())
    for pid in (7, 8):
        told = line_of(SwapAnswer(ok=True, pid=pid, up_s=1, slots=(LOOK,)))
        server = SwapServer(path, lambda _line, told=told: told)  # type: ignore[misc]
        server.start()
        view = client.look("detector")
        assert view is not None
        assert view.in_use.process == str(pid)
        server.stop()
    client.close()
    assert asked == []


@pytest.mark.parametrize(
    "says", [b"", b"{}\n", b"garbage\n", b"[" * 50_000 + b"\n", b"no end of it", b"x" * 400_000]
)
def test_what_is_no_answer_is_nobody(tmp_path: Path, says: bytes) -> None:
    path = tmp_path / "perception.sock"
    with _peer(path, says):
        client = PerceptionClient(path, SystemClock(), answer_s=0.3)
        assert client.look("detector") is None
        client.close()


@contextlib.contextmanager
def _peer(path: Path, says: bytes) -> Iterator[None]:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()
    ended = threading.Event()

    def serve() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(says)
                ended.wait(5)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield
    ended.set()
    listener.close()
    thread.join(5)
