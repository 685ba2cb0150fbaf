"""Streams, events and graphs of the double's device: work waits until somebody synchronises.

That is as late as a real device may do it: who reads a result too early reads what was there before, and who frees
or overwrites a buffer too early is told or gets garbage, in every run and not in one of a thousand.

Whoever waits runs what it waits for, also work that another thread put there. A thread that waits for work which
another one runs is let go when that has ended.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.rigs.tensorrt_double.faults import Faults, Gpu
from tests.rigs.tensorrt_double.memory import DeviceMemory


@dataclass(slots=True)
class Event:
    """`recorded` is the stream and the place in it, or None."""

    recorded: tuple[int, int] | None = None


@dataclass(slots=True)
class Stream:
    """Work that waits.

    Attributes:
        queued: how much was ever put in.
        done: how much of it has ended.
        runner: the thread that runs the oldest, or None.
        capture: what is kept for a graph, or None.
    """

    work: deque[Callable[[], None]] = field(default_factory=deque)
    queued: int = 0
    done: int = 0
    runner: int | None = None
    capture: list[Callable[[], None]] | None = None


class DeviceStreams(DeviceMemory):
    """What of a device is order.

    Args:
        gpu: which one.
        faults: what goes wrong.
    """

    def __init__(self, gpu: Gpu, faults: Faults) -> None:
        super().__init__(gpu, faults)
        self.most_pending = 0
        self._ended = threading.Condition(self._lock)
        self._streams: dict[int, Stream] = {}
        self._events: dict[int, Event] = {}
        self._graphs: dict[int, list[Callable[[], None]]] = {}

    def create_stream(self) -> int:
        """A handle."""
        self.alive()
        with self._lock:
            handle = next(self._handles)
            self._streams[handle] = Stream()
            return handle

    def destroy_stream(self, handle: int) -> None:
        """After its work."""
        self.stream(handle, "destroy_stream")
        if not self.lost:
            self.synchronize(handle)
        with self._lock:
            del self._streams[handle]

    def stream(self, handle: int, what: str) -> Stream:
        """The stream of a handle, checked."""
        found = self._streams.get(handle)
        if found is None:
            raise self.misuse(f"{what}: {handle:#x} is no stream (destroyed, or the default stream)")
        return found

    def create_event(self) -> int:
        """A handle."""
        self.alive()
        with self._lock:
            handle = next(self._handles)
            self._events[handle] = Event()
            return handle

    def destroy_event(self, handle: int) -> None:
        """Also while it waits."""
        self.event(handle, "destroy_event")
        del self._events[handle]

    def event(self, handle: int, what: str) -> Event:
        """The event of a handle, checked."""
        found = self._events.get(handle)
        if found is None:
            raise self.misuse(f"{what}: {handle:#x} is no event (destroyed?)")
        return found

    def enqueue(self, handle: int, what: str, work: Callable[[], None]) -> None:
        """Puts work on a stream."""
        self.alive()
        stream = self.stream(handle, what)
        if stream.capture is not None:
            stream.capture.append(work)
            return
        with self._lock:
            stream.work.append(work)
            stream.queued += 1
            self.most_pending = max(self.most_pending, sum(len(s.work) for s in self._streams.values()))

    def record(self, event: int, stream: int) -> None:
        """Marks the place that the stream has reached."""
        self.alive()
        self.event(event, "record").recorded = (stream, self.stream(stream, "record").queued)

    def wait_event(self, stream: int, event: int) -> None:
        """The stream waits for the place that was marked."""
        mark = self.event(event, "wait_event").recorded
        if mark is not None:  # CUDA: an event that was never recorded is no obstacle
            self.enqueue(stream, "wait_event", lambda: self._run(mark[0], mark[1]))

    def synchronize_event(self, event: int) -> None:
        """The thread waits."""
        self.alive()
        mark = self.event(event, "synchronize_event").recorded
        if mark is not None:
            self._run(*mark)

    def synchronize(self, stream: int) -> None:
        """The thread waits for all of a stream."""
        self.alive()
        self._capturing(stream, "synchronize")
        self._run(stream, self.stream(stream, "synchronize").queued)

    def drain(self) -> None:
        """The thread waits for all streams, unless it is in the work of one: that cannot wait for itself."""
        with self._lock:
            places = {handle: stream.queued for handle, stream in self._streams.items()}
            if any(stream.runner == threading.get_ident() for stream in self._streams.values()):
                return
        for handle, place in places.items():
            self._run(handle, place)

    def begin_capture(self, handle: int) -> None:
        """What is put into the stream is kept, not run."""
        stream = self.stream(handle, "begin_capture")
        if stream.capture is not None:
            raise self.misuse("begin_capture: the stream is being captured already")
        stream.capture = []

    def end_capture(self, handle: int) -> int:
        """A graph of what was kept."""
        stream = self.stream(handle, "end_capture")
        if stream.capture is None:
            raise self.misuse("end_capture: the stream is not being captured")
        graph = next(self._handles)
        self._graphs[graph], stream.capture = stream.capture, None
        return graph

    def launch_graph(self, graph: int, stream: int) -> None:
        """Puts all of a graph on a stream."""
        if graph not in self._graphs:
            raise self.misuse(f"launch_graph: {graph:#x} is no graph (destroyed?)")
        for work in self._graphs[graph]:
            self.enqueue(stream, "launch_graph", work)

    def destroy_graph(self, graph: int) -> None:
        """After its work."""
        if graph not in self._graphs:
            raise self.misuse(f"destroy_graph: {graph:#x} is no graph (destroyed?)")
        if not self.lost:
            self.drain()
        del self._graphs[graph]

    def _capturing(self, handle: int, what: str) -> None:
        stream = self._streams.get(handle)
        if stream is not None and stream.capture is not None:
            raise self.misuse(f"{what}: the stream is being captured")

    def _run(self, handle: int, place: int) -> None:
        """Returns when all of a stream up to a place has ended, whoever ran it.

        Threads do not wait for each other in a circle: work waits for what was put in before it only.
        """
        stream = self._streams.get(handle)
        while stream is not None and (work := self._due(stream, place)) is not None:
            try:
                work()
            finally:
                with self._ended:
                    stream.done += 1
                    stream.runner = None
                    self._ended.notify_all()
            self.alive()

    def _due(self, stream: Stream, place: int) -> Callable[[], None] | None:
        """What this thread has to run next for a place to be reached; None when it is."""
        with self._ended:
            while stream.done < place:
                if stream.runner == threading.get_ident():
                    raise self.misuse("the work of a stream waits for the stream itself")
                if stream.runner is None:
                    stream.runner = threading.get_ident()
                    return stream.work.popleft()
                self._ended.wait()
                self.alive()
        return None
