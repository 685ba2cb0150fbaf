"""Opens a session beside a model that looks: what takes long is done behind it, and the session is none the slower.

Linux gives a thread the priority of the one that made it, and lets no ordinary process raise it again. So the
thread that opens a session may be put behind others only once the session has made its own threads, which is the
first thing that it does. They are known by their name, which a thread inherits, too.
"""

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Generic, TypeVar

NICE: Final = 10
"""A tenth of a core where others take all they can get."""

_LOOK_S: Final = 0.002
_LONGEST_LOOK_S: Final = 5.0
_TASKS: Final = Path("/proc/self/task")

_T = TypeVar("_T")
_local = threading.local()
_numbers = itertools.count()


@contextlib.contextmanager
def politely() -> Iterator[None]:
    """Sessions that this thread opens inside the block are opened behind others."""
    _local.polite = True
    try:
        yield
    finally:
        _local.polite = False


def make(session: Callable[[], _T], threads: int) -> _T:
    """Make a session, in this thread or, inside of `politely`, in one that stands back.

    Args:
        session: makes it.
        threads: that compute in it, the caller of each run among them.

    Raises:
        Exception: what `session` raises.
    """
    if not getattr(_local, "polite", False):
        return session()
    maker = _Maker(session)
    maker.thread.start()
    maker.stand_back(threads)
    maker.thread.join()
    return maker.result()


class _Maker(Generic[_T]):
    """One session in the making, on a thread of its own."""

    def __init__(self, session: Callable[[], _T]) -> None:
        self._session = session
        self._made: list[_T] = []
        self._error: BaseException | None = None
        self._name = f"opens-{next(_numbers) % 1000}"
        self._tid: int | None = None
        self._named = threading.Event()
        self._others = frozenset(_TASKS.iterdir())
        self.thread = threading.Thread(target=self._run, name=self._name, daemon=True)

    def _run(self) -> None:
        self._tid = threading.get_native_id()
        with contextlib.suppress(OSError):
            (_TASKS / str(self._tid) / "comm").write_text(self._name, encoding="ascii")
        self._named.set()
        try:
            self._made.append(self._session())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error

    def stand_back(self, threads: int) -> None:
        """Put the maker behind others once the session has its threads; without a sign of them it stays."""
        self._named.wait()
        until = time.monotonic() + _LONGEST_LOOK_S
        while self.thread.is_alive() and time.monotonic() < until:
            if self._family() >= threads:
                with contextlib.suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, self._tid or 0, NICE)
                return
            time.sleep(_LOOK_S)

    def _family(self) -> int:
        """The maker, and the threads that it made."""
        found = 0
        with contextlib.suppress(OSError):
            # the new ones alone: who looks must not keep others from looking
            for task in set(_TASKS.iterdir()) - self._others:
                with contextlib.suppress(OSError):  # it has just ended
                    found += (task / "comm").read_bytes().strip() == self._name.encode()
        return found

    def result(self) -> _T:
        """What was made; raises what kept it from being made."""
        if self._error is not None:
            raise self._error
        return self._made[0]
