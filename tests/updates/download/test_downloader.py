"""Downloads over real HTTPS with a device's certificate: resumed, bounded, checked."""

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.download import DownloadCancelled, LocalCopies, Want
from edge_runtime.updates.problems import UpdateRefused
from tests.rigs.blob_server import BlobServer
from tests.rigs.downloads import Counted, Device, want_of
from tests.rigs.pki import Credentials, Pki

CHUNK = 64 * 1024


def offered(server: BlobServer, size: int) -> tuple[bytes, Want]:
    data = os.urandom(size)
    return data, want_of(server.add(data), data)


def refused(device: Device, *wants: Want) -> UpdateRefused:
    with pytest.raises(UpdateRefused) as caught:
        device.fetch(*wants)
    return caught.value


def test_several_blobs_one_of_them_twice(server: BlobServer, device: Device) -> None:
    (first, one), (second, two) = offered(server, 300_000), offered(server, 1)
    device.fetch(one, two, one)
    assert (device.blob(one), device.blob(two)) == (first, second)
    assert server.requests == [(None, None), (None, None)]
    assert server.devices == {"dev-1"}
    assert list(device.store.places.parts.iterdir()) == []


def test_empty_content_needs_no_server(server: BlobServer, device: Device) -> None:
    empty = Want("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", 0)
    device.fetch(empty)
    assert device.blob(empty) == b""
    assert server.requests == []
    assert refused(device, Want("0" * 64, 0)).code is UpdateCode.CONTENT_MISMATCH


def test_nothing_wanted(server: BlobServer, device: Device) -> None:
    device.fetch()
    assert server.requests == []


def test_the_rest_is_asked_for_by_name(server: BlobServer, device: Device) -> None:
    data, want = offered(server, 500_000)
    cuts = [100_001, None]
    server.cut_after = lambda: cuts.pop(0)
    device.fetch(want)
    assert device.blob(want) == data
    assert server.requests == [(None, None), ("bytes=100001-", f'"{want.sha256}"')]
    assert server.sent == 500_000


def test_the_name_is_remembered_across_processes(server: BlobServer, device: Device) -> None:
    """A mirror calls content by another name than its digest; a new process asks for the rest by that name."""
    data, want = offered(server, 400_000)
    server.etag = '"mirror-7"'
    server.cut_after = lambda: 90_000
    device.cancelled = lambda: len(server.requests) > 0 and device.part(want) >= 90_000
    with pytest.raises(DownloadCancelled):
        device.fetch(want)
    server.cut_after, device.cancelled = lambda: None, lambda: False
    device.fetch(want)
    assert device.blob(want) == data
    assert server.requests[-1] == ("bytes=90000-", '"mirror-7"')
    assert list(device.store.places.parts.iterdir()) == []


def test_content_that_was_replaced_under_its_name(server: BlobServer, device: Device) -> None:
    """If-Range fails, the whole comes, and what is here is passed over."""
    data, want = offered(server, 300_000)
    cuts = [150_000, None]
    server.cut_after = lambda: cuts.pop(0)

    def renamed() -> None:
        server.etag = '"old"' if len(server.requests) == 1 else '"new"'

    server.fault = renamed
    device.fetch(want)
    assert device.blob(want) == data
    assert server.requests[1] == ("bytes=150000-", '"old"')
    assert server.sent == 450_000


def test_a_server_without_ranges(server: BlobServer, device: Device) -> None:
    data, want = offered(server, 300_000)
    server.ranges, cuts = False, [200_000, 250_000, None]
    server.cut_after = lambda: cuts.pop(0)
    device.fetch(want)
    assert device.blob(want) == data


def test_a_damaged_part_costs_the_whole_once_more(server: BlobServer, device: Device) -> None:
    data, want = offered(server, 300_000)
    (device.store.places.parts / f"{want.sha256}.part").write_bytes(bytes(100_000))
    device.fetch(want)
    assert device.blob(want) == data
    assert [asked for asked, _ in server.requests] == ["bytes=100000-", None]


def test_a_part_that_is_too_long_or_complete(server: BlobServer, device: Device) -> None:
    data, want = offered(server, 100_000)
    part = device.store.places.parts / f"{want.sha256}.part"
    part.write_bytes(data + b"more")
    device.fetch(want)
    other, complete = offered(server, 100_000)
    (device.store.places.parts / f"{complete.sha256}.part").write_bytes(other)
    device.fetch(complete)
    assert (device.blob(want), device.blob(complete)) == (data, other)
    assert server.requests == [(None, None)]


def test_other_content_of_the_same_length(server: BlobServer, device: Device) -> None:
    _, want = offered(server, 200_000)
    server.blobs[want.sha256] = bytes(200_000)
    assert refused(device, want).code is UpdateCode.CONTENT_MISMATCH
    assert (len(server.requests), device.blob(want), device.part(want)) == (1, None, -1)


@pytest.mark.parametrize("length", [199_999, 200_001])
def test_changed_length(server: BlobServer, device: Device, length: int) -> None:
    """Not a byte of the body is kept."""
    data, want = offered(server, 200_000)
    server.blobs[want.sha256] = (data + b"!")[:length]
    found = refused(device, want)
    assert (found.code, found.again) == (UpdateCode.CONTENT_MISMATCH, False)
    assert str(length) in str(found)
    assert device.part(want) == 0


def test_changed_length_while_the_rest_is_asked_for(server: BlobServer, device: Device) -> None:
    data, want = offered(server, 200_000)

    def shorter() -> int:
        server.blobs[want.sha256] = data[:50_000]
        return 100_000

    server.cut_after = shorter
    found = refused(device, want)  # the server has fewer bytes now than are here: 416
    assert (found.code, found.again) == (UpdateCode.CONTENT_MISMATCH, False)


@pytest.mark.parametrize("status", [404, 410])
def test_kind_6_not_found_is_final_and_asked_once(server: BlobServer, device: Device, status: int) -> None:
    """rauc-hawkbit-updater #158: 404 with resume on was retried every half second without end."""
    data, want = offered(server, 200_000)
    (device.store.places.parts / f"{want.sha256}.part").write_bytes(data[:100_000])
    server.fault = lambda: (status, {})
    found = refused(device, want)
    assert (found.code, found.again) == (UpdateCode.DOWNLOAD_NOT_FOUND, False)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [500, 503, 429])
def test_kind_6_an_overloaded_server_is_left_alone(server: BlobServer, device: Device, status: int) -> None:
    data, want = offered(server, 200_000)
    server.fault = lambda: (status, {"Retry-After": "0"}) if len(server.requests) < 4 else None
    device.fetch(want)
    assert device.blob(want) == data
    assert len(server.requests) == 4


def test_kind_6_waits_grow_and_end_at_the_deadline(
    server: BlobServer, tmp_path: Path, party: Credentials
) -> None:
    """A server that never gets well: ten tries at most within a second and a half."""
    _, want = offered(server, 1000)
    server.fault = lambda: (503, {})
    device = Device(
        tmp_path / "other",
        server.url,
        party.client_context(),
        first_wait_s=0.2,
        longest_wait_s=0.4,
        deadline_s=1.5,
    )
    found = refused(device, want)
    assert (found.code, found.again) == (UpdateCode.DOWNLOAD_DEADLINE, True)
    assert "503" in str(found)
    assert 3 <= len(server.requests) <= 10


def test_kind_6_a_long_retry_after_can_be_cancelled(server: BlobServer, device: Device) -> None:
    """A forced cancel survived in the report; here it ends the wait."""
    _, want = offered(server, 1000)
    device.rules = replace(device.rules, first_wait_s=600.0, longest_wait_s=600.0)
    server.fault = lambda: (503, {"Retry-After": "600"})
    stop = threading.Event()
    device.cancelled = stop.is_set
    threading.Timer(0.3, stop.set).start()
    with pytest.raises(DownloadCancelled):
        device.fetch(want)
    assert len(server.requests) == 1


def test_cancelled_between_two_chunks(server: BlobServer, device: Device) -> None:
    data, want = offered(server, 5_000_000)
    device.cancelled = lambda: device.part(want) > 1_000_000
    with pytest.raises(DownloadCancelled):
        device.fetch(want)
    here = device.part(want)
    assert 1_000_000 < here < 5_000_000
    device.cancelled = lambda: False
    device.fetch(want)
    assert device.blob(want) == data
    assert server.requests[1][0] == f"bytes={here}-"


def test_kind_7_progress_is_sampled(server: BlobServer, device: Device) -> None:
    """hawkBit #1249: a status for each range filled the quota of an action."""
    (_, one), (_, two) = offered(server, 3_000_000), offered(server, 3_000_000)
    cuts = list(range(10_000, 1_000_000, 10_000))
    server.cut_after = lambda: cuts.pop(0) if cuts else None
    device.fetch(one, two)
    assert len(server.requests) > 20
    assert len(device.progress) <= 30
    assert [told.done for told in device.progress] == sorted(told.done for told in device.progress)
    assert (device.progress[-1].done, device.progress[-1].total) == (6_000_000, 6_000_000)


def test_the_days_bytes(server: BlobServer, device: Device) -> None:
    """What the budget allows comes, not a byte more; another day brings the rest."""
    data, want = offered(server, 1_000_000)
    budget = Counted(400_000)
    device.budget = budget
    found = refused(device, want)
    assert (found.code, found.again) == (UpdateCode.BYTE_BUDGET, True)
    assert 400_000 - CHUNK - 1024 <= device.part(want) <= budget.claimed <= 400_000
    device.budget = Counted()
    device.fetch(want)
    assert device.blob(want) == data
    assert device.budget.claimed <= 1_000_000 - 400_000 + CHUNK + 1024


def test_bytes_are_claimed_before_they_come_and_not_twice(server: BlobServer, device: Device) -> None:
    _, want = offered(server, 1_000_000)
    device.budget = budget = Counted()
    device.fetch(want)
    assert 1_000_000 <= budget.claimed <= 1_000_000 + 1024


def test_a_metered_link(server: BlobServer, device: Device) -> None:
    data, want = offered(server, 100_000)
    small, little = offered(server, 9_000)
    device.rules = replace(device.rules, metered_bytes=10_000)
    device.metered = True
    found = refused(device, want)
    assert (found.code, found.again) == (UpdateCode.METERED, True)
    assert server.requests == []
    device.fetch(little)
    assert device.blob(little) == small
    device.metered = False
    device.fetch(want)
    assert device.blob(want) == data


def test_a_link_that_becomes_metered_is_not_used_for_the_next_try(server: BlobServer, device: Device) -> None:
    _, want = offered(server, 500_000)
    device.rules = replace(device.rules, metered_bytes=0, first_wait_s=0.01)

    def cut() -> int:
        device.metered = True
        return 200_000

    server.cut_after = cut
    assert refused(device, want).code is UpdateCode.METERED
    assert (len(server.requests), device.part(want)) == (1, 200_000)


def test_another_process_has_the_part(server: BlobServer, device: Device) -> None:
    import fcntl

    _, want = offered(server, 1000)
    with (device.store.places.parts / f"{want.sha256}.part").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = refused(device, want)
    assert (found.code, found.again) == (UpdateCode.DOWNLOAD_FAILED, True)


def test_no_server_at_all(server: BlobServer, device: Device) -> None:
    device.url = "https://localhost:9"
    device.rules = replace(device.rules, first_wait_s=0.01, longest_wait_s=0.05, deadline_s=0.5)
    found = refused(device, Want("0" * 64, 10))
    assert (found.code, found.again) == (UpdateCode.DOWNLOAD_DEADLINE, True)
    assert "refused" in str(found)


def test_the_wrong_server(server: BlobServer, device: Device, tmp_path: Path) -> None:
    """Another authority's device does not believe this server, and does not send its certificate anywhere."""
    stranger = Pki(tmp_path / "other-pki").device("dev-1")
    device.tls = stranger.client_context()
    device.rules = replace(device.rules, first_wait_s=0.01, longest_wait_s=0.05, deadline_s=0.5)
    found = refused(device, Want("0" * 64, 10))
    assert found.code is UpdateCode.DOWNLOAD_DEADLINE
    assert "not the one that was expected" in str(found)
    assert server.requests == []


def test_what_lies_on_the_device_is_not_fetched(server: BlobServer, device: Device, tmp_path: Path) -> None:
    """The package that a device was set up with holds the weights of the release with new labels."""
    weights, want = offered(server, 200_000)
    labels, other = offered(server, 300)
    package = tmp_path / "package"
    package.mkdir()
    (package / "model.onnx").write_bytes(weights)
    (package / "same-length.onnx").write_bytes(bytes(200_000))
    (package / "link.onnx").symlink_to(package / "model.onnx")
    device.shortcuts = [LocalCopies(lambda: [tmp_path / "absent", package])]
    device.fetch(want, other)
    assert (device.blob(want), device.blob(other)) == (weights, labels)
    assert server.sent == 300
    assert (package / "model.onnx").read_bytes() == weights
    assert list(device.store.places.parts.iterdir()) == []


class Patched:
    """A shortcut as a delta would be: a base, by its digest, and what to put behind it."""

    def __init__(self, base: Path, digest: str, behind: bytes) -> None:
        self.tried = 0
        self._base, self._digest, self._behind = base, digest, behind

    def bring(self, want: Want, target: Path) -> bool:
        from edge_runtime.durable import sha256_file

        self.tried += 1
        if sha256_file(self._base) != self._digest:
            return False
        target.write_bytes(self._base.read_bytes() + self._behind)
        return True


@pytest.mark.parametrize("flaw", ["none", "no base", "another base", "another result", "the disk"])
def test_kind_14_a_delta_is_an_optimisation(
    server: BlobServer, device: Device, tmp_path: Path, flaw: str
) -> None:
    """balena-supervisor #1054: without its base a delta was applied for ever. Here one failure, then the whole."""
    import hashlib

    base, behind = os.urandom(100_000), os.urandom(500)
    data = base + behind
    want = want_of(server.add(data), data)
    path = tmp_path / "base"
    path.write_bytes(os.urandom(100_000) if flaw == "another base" else base)
    if flaw == "no base":
        path.unlink()
    if flaw == "the disk":
        path.unlink()
        path.mkdir()
    delta = Patched(
        path, hashlib.sha256(base).hexdigest(), bytes(500) if flaw == "another result" else behind
    )
    device.shortcuts = [delta]
    device.fetch(want)
    assert device.blob(want) == data
    assert delta.tried == 1
    assert server.sent == (0 if flaw == "none" else len(data))
    assert list(device.store.places.parts.iterdir()) == []
