"""Lengthy things beside the loop: one at a time, ended when asked, and what they raise is said."""

import threading
import time
from collections.abc import Callable

import pytest

from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.download import DownloadCancelled
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.process.errands import ErrandsAtOnce, ErrandsOnThread
from edge_runtime.updates.process.ports import Errands, Told

KINDS: list[Callable[[], Errands]] = [ErrandsAtOnce, lambda: ErrandsOnThread("test")]


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def done(errands: Errands, work: Callable[[Told], None]) -> None:
    errands.begin("7", work)
    until(lambda: errands.look().over)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_over_is_put_away(kind: Callable[[], Errands]) -> None:
    errands = kind()
    done(errands, lambda told: told.progress(5, 10))
    found = errands.look()
    assert errands.about == "7"
    assert (found.code, found.done_bytes) == (None, 5)
    errands.put_away()
    assert not errands.about


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("raised", "code", "again"),
    [
        (UpdateRefused(UpdateCode.NO_SPACE, "full", again=True), UpdateCode.NO_SPACE, True),
        (UpdateRefused(UpdateCode.BAD_BUNDLE, "no"), UpdateCode.BAD_BUNDLE, False),
        (DownloadCancelled("enough"), UpdateCode.DOWNLOAD_FAILED, True),
        (OSError(5, "Input/output error"), UpdateCode.DOWNLOAD_FAILED, True),
        (ZeroDivisionError("a defect"), UpdateCode.DEFECT, False),
    ],
)
def test_what_it_raises_is_said(
    kind: Callable[[], Errands], raised: Exception, code: UpdateCode, again: bool
) -> None:
    def work(_told: Told) -> None:
        raise raised

    errands = kind()
    done(errands, work)
    found = errands.look()
    assert (found.code, found.again) == (code, again)
    assert found.text


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_that_came_count_from_where_it_began(kind: Callable[[], Errands]) -> None:
    def work(told: Told) -> None:
        told.progress(500, 1000)
        told.progress(600, 1000)

    errands = kind()
    done(errands, work)
    assert errands.look().moved_bytes
    errands.put_away()
    done(errands, lambda told: told.progress(500, 1000))
    assert not errands.look().moved_bytes


def test_it_ends_when_it_is_asked_to() -> None:
    errands, begun = ErrandsOnThread("test"), threading.Event()

    def work(told: Told) -> None:
        begun.set()
        until(told.cancelled)

    errands.begin("7", work)
    assert begun.wait(10)
    assert not errands.look().over
    with pytest.raises(AssertionError):
        errands.begin("8", work)
    with pytest.raises(AssertionError):
        errands.put_away()
    errands.cancel()
    until(lambda: errands.look().over)
