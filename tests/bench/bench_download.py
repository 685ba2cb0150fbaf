"""Speed of downloads into the store as a ratio to the bare libraries, from the same server in the same round.

    python -m tests.bench.bench_download [--rounds 7] [--mebibytes 64] [--files 100]

All write to the same disk. The bare ones stream into a file, and where "checked" is said they also take its SHA-256
and flush it, which is what a device may not leave out. The server is another process, over TLS with certificates of
both sides.
"""

import argparse
import contextlib
import hashlib
import multiprocessing
import os
import shutil
import ssl
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import httpx

from edge_runtime.updates.download import Want
from tests.rigs.blob_server import BlobServer
from tests.rigs.downloads import Device
from tests.rigs.pki import Credentials, Pki

PIECE = 64 * 1024
SMALL = 4096


def serve(party: Credentials, sizes: list[int], told: Connection) -> None:
    """In a process of its own: serve random content of these sizes until `told` is closed."""
    with BlobServer(party) as server:
        wants = [(server.add(os.urandom(size)), size) for size in sizes]
        told.send((server.url, wants))
        with contextlib.suppress(EOFError):
            told.recv()


@contextlib.contextmanager
def serving(party: Credentials, sizes: list[int]) -> Iterator[tuple[str, list[Want]]]:
    """The server's address and what it has."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=serve, args=(party, sizes, there), daemon=True)
    process.start()
    there.close()
    url, wants = here.recv()
    try:
        yield url, [Want(*want) for want in wants]
    finally:
        here.close()
        process.join(10)


class Ways:
    """Each fetches everything that is wanted into an empty folder."""

    def __init__(self, url: str, tls: ssl.SSLContext, folder: Path) -> None:
        self._url, self._tls, self._folder = url, tls, folder

    def store(self, wants: list[Want]) -> None:
        """The product: budget, watch, part files, store."""
        Device(self._folder / "updates", self._url, self._tls).fetch(*wants)

    def bare_httpx(self, wants: list[Want]) -> None:
        """`httpx.stream` into files."""
        with httpx.Client(verify=self._tls, trust_env=False) as client:
            for want in wants:
                self._write(want, self._pieces(client, want), checked=False)

    def checked_httpx(self, wants: list[Want]) -> None:
        """The same, checked."""
        with httpx.Client(verify=self._tls, trust_env=False) as client:
            for want in wants:
                self._write(want, self._pieces(client, want), checked=True)

    def checked_urllib(self, wants: list[Want]) -> None:
        """The standard library, checked; it makes a connection for each file."""
        for want in wants:
            with urllib.request.urlopen(self._address(want), context=self._tls) as answer:
                self._write(want, iter(partial(answer.read, PIECE), b""), checked=True)

    def _pieces(self, client: httpx.Client, want: Want) -> Iterator[bytes]:
        with client.stream("GET", self._address(want)) as answer:
            yield from answer.iter_raw()

    def _address(self, want: Want) -> str:
        return f"{self._url}/v1/updates/blobs/{want.sha256}"

    def _write(self, want: Want, pieces: Iterator[bytes], *, checked: bool) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        with (self._folder / want.sha256).open("wb") as file:
            for piece in pieces:
                file.write(piece)
                if checked:
                    digest.update(piece)
            if checked:
                file.flush()
                os.fsync(file.fileno())
        assert not checked or digest.hexdigest() == want.sha256


def measure(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds by the wall and of this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--mebibytes", type=int, default=64)
    parser.add_argument("--files", type=int, default=100)
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="download-bench-"))
    pki = Pki(place / "pki")
    tls = pki.device("bench").client_context()
    sizes = [options.mebibytes << 20] + [SMALL] * options.files
    found: dict[str, dict[str, list[tuple[float, float]]]] = {"one large": {}, "many small": {}}
    try:
        with serving(pki.server(), sizes) as (url, wants):
            for number in range(options.rounds):
                for case, chosen in (("one large", wants[:1]), ("many small", wants[1:])):
                    for name in ("bare_httpx", "checked_httpx", "checked_urllib", "store"):
                        folder = place / f"{number}-{case}-{name}"
                        way = partial(getattr(Ways(url, tls, folder), name), chosen)
                        found[case].setdefault(name, []).append(measure(way))
                        shutil.rmtree(folder)
    finally:
        shutil.rmtree(place)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{options.mebibytes} MiB at once, and {options.files} files of {SMALL} B; load average {load}")
    print(f"{'case':14}{'way':18}{'seconds':>9}{'CPU s':>8}  ratio of the store's time to it")
    for case, ways in found.items():
        ours = [wall for wall, _ in ways["store"]]
        for name, times in ways.items():
            ratios = [mine / wall for mine, (wall, _) in zip(ours, times, strict=True)]
            seconds = statistics.median(wall for wall, _ in times)
            cpu = statistics.median(cpu for _, cpu in times)
            spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
            print(f"{case:14}{name.replace('_', ' '):18}{seconds:>9.3f}{cpu:>8.3f}  {spread}")


if __name__ == "__main__":
    main()
