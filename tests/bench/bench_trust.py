"""Time in which a device judges an assignment by the metadata it keeps: `make bench ARGS=trust`.

First: the first one of a process, which reads and verifies all of the chain. Then: the following ones, as long as
no file changes. Beside them, in the same run, tuf's own client over the same files, which cannot judge an
assignment but walks the same chain. Times are CPU time of the thread, so that waiting for other work on the machine
is not counted in; nothing is flushed to a disk meanwhile. Budget: 50 ms without a download.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tuf.api.exceptions import DownloadHTTPError
from tuf.ngclient import Updater
from tuf.ngclient.fetcher import FetcherInterface

from edge_runtime.protocol.release import Fit, Opening, ReleaseKind
from tests.rigs.signed_repository import SignedRepository, make_release
from tests.rigs.trusting_device import TrustingDevice

BUDGET_MS = 50.0


class Offline(FetcherInterface):
    """Gives tuf the files of a folder, and no newer root."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _fetch(self, url: str) -> Iterator[bytes]:
        name = url.rsplit("/", 1)[1]
        file = self._folder / (name.split(".", 1)[1] if name[0].isdigit() else name)
        if name.endswith(".root.json") or not file.exists():
            raise DownloadHTTPError("offline", 404)
        return iter([file.read_bytes()])


def repository(releases: int, roots: int) -> SignedRepository:
    """A fleet with so many releases of a model, each with terms of the usual length, and so many roots."""
    fleet = SignedRepository()
    for number in range(releases):
        made = make_release(
            number + 1,
            labels=("person", "bicycle", "car", "motorcycle", "bus", "truck"),
            licence="Apache-2.0",
            fit=Fit(hardware=("jetson-orin-nx", "jetson-orin-nano"), architectures=("aarch64",)),
            rollback_to=("5a" * 32,),
            openings=tuple(Opening(basis_points=share) for share in (200, 1000, 5000, 10_000)),
        )
        fleet.list_release(made)
    fleet.list_release(make_release(1, "site", kind=ReleaseKind.CONFIGURATION))
    fleet.publish()
    for _ in range(roots - 1):
        fleet.publish("root")
    return fleet


def timed(act: Callable[[], object], before: Callable[[], object], times: int) -> list[float]:
    """Milliseconds of processor time of each of some calls."""
    spent = []
    for _ in range(times):
        before()
        start = time.thread_time()
        act()
        spent.append((time.thread_time() - start) * 1000)
    return spent


def by_tuf(folder: Path, bootstrap: bytes, path: str) -> None:
    """The same chain walked by tuf's client, in a copy, for it writes."""
    updater = Updater(str(folder), "file:///", fetcher=Offline(folder), bootstrap=bootstrap)
    assert updater.get_targetinfo(path) is not None


def report(name: str, spent: list[float]) -> float:
    """One line of the table; the 95th percentile."""
    cuts = statistics.quantiles(spent, n=20)
    print(f"  {name:<24} p50 {cuts[9]:7.2f} ms   p95 {cuts[18]:7.2f} ms   most {max(spent):7.2f} ms")
    return cuts[18]


def measure(folder: Path, releases: int, roots: int, times: int) -> None:
    """The lines of one size of repository."""
    fleet = repository(releases, roots)
    device = TrustingDevice(folder / "updates", fleet)
    device.trust.refresh()
    release = fleet.releases[f"models/detector/{releases}/bundle.json"]
    sealed = device.assigned(release)
    length = (device.folder / "metadata" / "models.json").stat().st_size
    print(f"{releases} releases ({length / 1000:.0f} kB), {roots} roots")
    first = report("first", timed(lambda: device.admit(sealed), device.restarted, times))
    then = report("then", timed(lambda: device.admit(sealed), lambda: None, times * 5))
    copy = folder / "tuf"
    shutil.copytree(device.folder / "metadata", copy, symlinks=True)
    path, bootstrap = release.terms.target, fleet.files["1.root.json"]
    tuf = report("tuf's client", timed(lambda: by_tuf(copy, bootstrap, path), lambda: None, times))
    print(
        f"  first / tuf's client {first / tuf:.2f}; of the budget {first / BUDGET_MS:.2f}, {then / BUDGET_MS:.2f}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=40)
    times = parser.parse_args().times
    for releases, roots in ((10, 1), (100, 1), (300, 1), (1000, 1), (10, 50)):
        with tempfile.TemporaryDirectory() as scratch:
            measure(Path(scratch), releases, roots, times)


if __name__ == "__main__":
    main()
