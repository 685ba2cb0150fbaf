"""Durable queues of others, one at a time: `python queues.py NAME THREADS SECONDS DIRECTORY` prints puts a second.

Run by the interpreter of an environment of its own. Each is set to one sync for each put, as the outbox has it.
"""

import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

BODY = bytes(range(256)) + bytes(26)


def persist_queue(directory: Path) -> Callable[[], None]:
    """persist-queue's SQLite queue; commits and syncs at every put."""
    persistqueue = import_module("persistqueue")  # in an environment of its own

    queue = persistqueue.SQLiteQueue(str(directory), auto_commit=True, multithreading=True)
    return lambda: queue.put(BODY)


def litequeue(directory: Path) -> Callable[[], None]:
    """litequeue, whose default of NORMAL would lose what it acknowledged."""
    peer = import_module("litequeue")

    queue = peer.LiteQueue(str(directory / "queue.db"))
    queue.conn.execute("PRAGMA synchronous = FULL")
    text = BODY.decode("latin-1")
    lock = threading.Lock()

    def put() -> None:
        with lock:
            queue.put(text)

    return put


def main(name: str, threads: int, seconds: float, directory: Path) -> None:
    """Print the rate."""
    put = {"persist-queue": persist_queue, "litequeue": litequeue}[name](directory)
    put()
    counts = [0] * threads
    end = time.perf_counter() + seconds

    def work(index: int) -> None:
        while time.perf_counter() < end:
            put()
            counts[index] += 1

    workers = [threading.Thread(target=work, args=(index,)) for index in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(sum(counts) / seconds)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]))
