"""One lengthy thing at a time, beside the loop: on a thread of its own, or at once where time is simulated."""

import threading
from collections.abc import Callable

from edge_runtime.errors import EdgeRuntimeError, first_line
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.machine.observed import Errand
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.process.ports import Told

Job = Callable[[Told], None]


class _Progress:
    """What an errand tells; written by one thread, read by another, a field at a time."""

    def __init__(self) -> None:
        self.done_bytes = self.of_bytes = 0
        self.first_bytes: int | None = None
        self.asked_to_end = False

    def progress(self, done_bytes: int, of_bytes: int) -> None:
        if self.first_bytes is None or of_bytes != self.of_bytes:
            self.first_bytes = done_bytes
        self.done_bytes, self.of_bytes = done_bytes, of_bytes

    def cancelled(self) -> bool:
        return self.asked_to_end


def _run(job: Job, told: _Progress) -> Errand:
    code, text, again = None, "", False
    try:
        job(told)
    except UpdateRefused as refused:
        code, text, again = refused.code, str(refused), refused.again
    except EdgeRuntimeError as error:  # such as DownloadCancelled
        code, text, again = UpdateCode.DOWNLOAD_FAILED, str(error), True
    except OSError as error:
        code, text, again = UpdateCode.DOWNLOAD_FAILED, error.strerror or str(error), True
    except Exception as error:  # noqa: BLE001 - a defect ends the assignment, not the process
        code, text = UpdateCode.DEFECT, f"{type(error).__name__}: {first_line(error)}"
    return _look(told, over=True, code=code, text=text, again=again)


def _look(
    told: _Progress,
    *,
    over: bool = False,
    code: UpdateCode | None = None,
    text: str = "",
    again: bool = False,
) -> Errand:
    return Errand(
        over=over,
        code=code,
        text=text,
        again=again,
        done_bytes=told.done_bytes,
        of_bytes=told.of_bytes,
        moved_bytes=told.done_bytes > (told.first_bytes or 0),
    )


class ErrandsAtOnce:
    """`Errands` that are over when they have begun, for a simulated device."""

    def __init__(self) -> None:
        self._about: str | None = None
        self._result = Errand()

    def begin(self, about: str, work: Job) -> None:
        """Do it."""
        self._about = about
        self._result = _run(work, _Progress())

    @property
    def about(self) -> str | None:
        """What the last one was about."""
        return self._about

    def look(self) -> Errand:
        """What came of it."""
        return self._result

    def cancel(self) -> None:
        """It is over."""

    def put_away(self) -> None:
        """Forget it."""
        self._about = None


class ErrandsOnThread:
    """`Errands` on a thread each. The thread ends with the process; what it does is bounded by its own deadlines.

    Args:
        name: of the threads.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._about: str | None = None
        self._told = _Progress()
        self._result: Errand | None = None

    def begin(self, about: str, work: Job) -> None:
        """Start it."""
        if self._about is not None:
            raise AssertionError(f"{self._name}: {self._about} is not put away")
        self._about, self._result, self._told = about, None, _Progress()
        thread = threading.Thread(target=self._do, args=(work, self._told), name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # else it would be under way for ever
            text = f"the system gives no thread for it: {error}"
            self._result = Errand(over=True, code=UpdateCode.DEFECT, text=text, again=True)

    @property
    def about(self) -> str | None:
        """What the present one is about."""
        return self._about

    def look(self) -> Errand:
        """How far it is."""
        return self._result or _look(self._told)

    def cancel(self) -> None:
        """Ask it to end."""
        self._told.asked_to_end = True

    def put_away(self) -> None:
        """Forget it; only one that is over."""
        if self._result is None:
            raise AssertionError(f"{self._name}: {self._about} is still under way")
        self._about = None

    def _do(self, work: Job, told: _Progress) -> None:
        self._result = _run(work, told)
