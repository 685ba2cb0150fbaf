"""Cut at 100 random bytes, over several processes: no more is fetched than the length and a chunk for each cut."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

from edge_runtime.updates.download import Want
from tests.rigs.blob_server import BlobServer
from tests.rigs.cutting_relay import CuttingRelay
from tests.rigs.download_process import claimed
from tests.rigs.downloads import Device, want_of
from tests.rigs.pki import Credentials

CHUNK = 64 * 1024
OVERHEAD = 512
LENGTH = 6_000_003
CUTS = 100


class Processes:
    """Processes that download one blob, one after the other.

    Attributes:
        number: that were started.
    """

    def __init__(self, folder: Path, url: str, party: Credentials, want: Want) -> None:
        self.root, self.claims = folder / "updates", folder / "claims"
        self._words = [str(self.root), url, str(party.certificate), str(party.key), str(party.authority)]
        self._words += [want.sha256, str(want.length), str(self.claims)]
        self.number = 0
        self._present: subprocess.Popen[bytes] | None = None

    def run(self, deadline_s: float) -> int:
        """Start one and wait for its end; its exit code, negative where it was killed."""
        command = [sys.executable, "-m", "tests.rigs.download_process", *self._words, str(deadline_s)]
        self.number += 1
        self._present = subprocess.Popen(command)
        return self._present.wait(60)

    def kill(self) -> None:
        """As the kernel does when memory runs out."""
        if self._present is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._present.pid, signal.SIGKILL)


def stretches(rng: random.Random) -> list[int]:
    """How much passes between cuts at random bytes: of content, and of what TLS and HTTP add to it."""
    places = sorted(rng.randrange(LENGTH) for _ in range(CUTS))
    return [max(1, right - left) for left, right in zip([0, *places], places, strict=False)]


def test_cut_at_100_random_bytes_over_several_processes(
    tmp_path: Path, server: BlobServer, party: Credentials
) -> None:
    """The road is cut within TLS records, handshakes and heads; every twentieth time the process is killed."""
    data = os.urandom(LENGTH)
    want = want_of(server.add(data), data)
    waiting, lock = stretches(random.Random(20261130)), threading.Lock()

    def cut_after() -> int | None:
        with lock:
            return waiting.pop() if waiting else None

    with CuttingRelay(server.port, cut_after) as relay:
        processes = Processes(tmp_path, relay.url, party, want)
        relay.cut = lambda: processes.kill() if relay.cuts % 20 == 0 else None
        while (code := processes.run(deadline_s=60.0)) != 0:
            assert code == -signal.SIGKILL
            assert processes.number < 20
    assert (processes.root / "blobs" / want.sha256).read_bytes() == data
    assert relay.cuts == CUTS
    assert processes.number >= 5
    claims = claimed(processes.claims)
    requests = claims.count(OVERHEAD)
    assert requests <= CUTS + processes.number
    assert sum(claims) - requests * OVERHEAD <= LENGTH + CUTS * CHUNK
    assert relay.passed <= LENGTH + CUTS * CHUNK


def test_what_is_cut_by_the_server_is_never_fetched_twice(server: BlobServer, device: Device) -> None:
    """Where the answer itself ends early, every byte that was sent is used."""
    data = os.urandom(LENGTH)
    want = want_of(server.add(data), data)
    waiting = stretches(random.Random(7))
    server.cut_after = lambda: waiting.pop() if waiting else None
    device.fetch(want)
    assert device.blob(want) == data
    assert not waiting
    assert server.sent == LENGTH
