"""Replaces `onnxruntime.InferenceSession` so that a whole program's run calls are timed, whoever makes them."""

import threading
import time
from typing import Any

import onnxruntime

_original = onnxruntime.InferenceSession
_lock = threading.Lock()
inside_s = 0.0
"""Processor time spent inside run calls, in the calling thread; all of it where a session has one thread."""


class CountingSession(_original):  # type: ignore[misc,valid-type]
    """The same session, timed; `threads` overrides intra-op threads where it is not None."""

    threads: int | None = None

    def __init__(self, path: Any, sess_options: Any = None, **more: Any) -> None:
        options = sess_options or onnxruntime.SessionOptions()
        if CountingSession.threads is not None:
            options.intra_op_num_threads = CountingSession.threads
        super().__init__(path, options, **more)

    def run(self, *arguments: Any, **more: Any) -> Any:
        """Run and add the calling thread's processor time."""
        global inside_s  # noqa: PLW0603 - one counter of one process
        begun = time.thread_time()
        try:
            return super().run(*arguments, **more)
        finally:
            spent = time.thread_time() - begun
            with _lock:
                inside_s += spent


def install(threads: int | None) -> None:
    """From now on every session of this process is counted."""
    CountingSession.threads = threads
    onnxruntime.InferenceSession = CountingSession
