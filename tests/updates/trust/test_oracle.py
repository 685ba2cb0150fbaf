"""Our walk along the chain against tuf's own: whatever lies on the disk, we accept no file that tuf would not.

tuf's `Updater` reads the same folder through a fetcher that knows no network. Both must come to the same releases,
or ours must be the one that refuses.
"""

import contextlib
import gc
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tuf.api.exceptions import DownloadError, DownloadHTTPError, RepositoryError
from tuf.api.metadata import MetaFile
from tuf.ngclient import Updater
from tuf.ngclient.fetcher import FetcherInterface

from edge_runtime.protocol.release import canonical
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.trust.cache import MetadataFolder
from edge_runtime.updates.trust.chain import verify_chain, verify_role
from edge_runtime.updates.trust.listing import read_listing
from tests.rigs.signed_repository import SignedRepository, make_release
from tests.rigs.trusting_device import TrustingDevice, refusal

PATH = "models/detector/1/bundle.json"


class Offline(FetcherInterface):
    """Knows no network."""

    def _fetch(self, url: str) -> Iterator[bytes]:
        if url.endswith(".root.json"):
            raise DownloadHTTPError("offline", 404)
        name = url.rsplit("/", 1)[1]
        file = self.folder / (name.split(".", 1)[1] if name[0].isdigit() else name)
        if not file.is_file():
            raise DownloadHTTPError("offline", 503)
        return iter([file.read_bytes()])

    def __init__(self, folder: Path) -> None:
        self.folder = folder


def by_tuf(folder: Path, bootstrap: bytes) -> dict[str, Any] | None:
    """The release's target as tuf finds it, or None where it refuses; it writes, so it works on a copy."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "metadata"
        shutil.copytree(folder, copy, symlinks=True)
        try:
            updater = Updater(str(copy), "file:///", fetcher=Offline(copy), bootstrap=bootstrap)
            found = updater.get_targetinfo(PATH)
        except (RepositoryError, DownloadError, OSError):
            return None
        return None if found is None else found.to_dict()


def by_us(folder: Path, bootstrap: bytes) -> dict[str, Any] | None:
    """The same by our walk."""
    kept = MetadataFolder(folder).kept(bootstrap, 0)
    try:
        chain = verify_chain(kept)
        found = verify_role(chain, kept, "models").target(PATH)
    except UpdateRefused:
        return None
    return None if found is None else found.to_dict()


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A folder with two roots and all else, and the root it begins with."""
    fleet = SignedRepository()
    fleet.release(1)
    fleet.publish("root")
    device = TrustingDevice(tmp_path_factory.mktemp("oracle") / "updates", fleet)
    device.trust.refresh()
    return device.folder / "metadata", fleet.files["1.root.json"]


def test_both_find_the_release(trusted: tuple[Path, bytes]) -> None:
    folder, bootstrap = trusted
    assert by_us(folder, bootstrap) == by_tuf(folder, bootstrap) != None  # noqa: E711


NAMES = ("timestamp", "snapshot", "targets", "models", "root_history/2.root")


@given(
    name=st.sampled_from(NAMES),
    place=st.integers(0, 1 << 16),
    change=st.one_of(
        st.tuples(st.just("flip"), st.integers(1, 255)),
        st.tuples(st.just("cut"), st.integers(0, 64)),
        st.tuples(st.just("digit"), st.integers(0, 9)),
    ),
)
@settings(max_examples=50)
def test_whatever_one_byte_becomes(
    name: str, place: int, change: tuple[str, int], trusted: tuple[Path, bytes]
) -> None:
    folder, bootstrap = trusted
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "metadata"
        shutil.copytree(folder, copy, symlinks=True)
        file = copy / f"{name}.json"
        data = bytearray(file.read_bytes())
        kind, value = change
        at = place % len(data)
        if kind == "flip":
            data[at] ^= value
        elif kind == "cut":
            del data[at : at + value]
        else:
            digits = [index for index, byte in enumerate(data) if chr(byte).isdigit()]
            data[digits[place % len(digits)]] = ord(str(value))
        file.write_bytes(bytes(data))
        ours, theirs = by_us(copy, bootstrap), by_tuf(copy, bootstrap)
        assert ours is None or ours == theirs


def files_of_both(trusted: tuple[Path, bytes]) -> dict[str, Any]:
    return {name: json.loads((trusted[0] / f"{name}.json").read_bytes()) for name in NAMES}


@given(data=st.data())
@settings(max_examples=30)
def test_whatever_one_value_becomes(data: st.DataObject, trusted: tuple[Path, bytes]) -> None:
    """The structure stays JSON: types change, values are lost, signatures are taken from another file."""
    folder, bootstrap = trusted
    found = files_of_both(trusted)
    name = data.draw(st.sampled_from(NAMES))
    spoil(found[name], data)
    if data.draw(st.booleans()):
        found[name]["signatures"] = found[data.draw(st.sampled_from(NAMES))]["signatures"]
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "metadata"
        shutil.copytree(folder, copy, symlinks=True)
        (copy / f"{name}.json").write_text(json.dumps(found[name]))
        ours, theirs = by_us(copy, bootstrap), by_tuf(copy, bootstrap)
        assert ours is None or ours == theirs


def spoil(node: Any, data: st.DataObject) -> None:
    """Put something else in the place of one value, anywhere."""
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if isinstance(node[key], dict | list) and node[key] and data.draw(st.booleans()):
            node = node[key]
            continue
        node[key] = data.draw(st.sampled_from([None, 0, -1, 2**63, 1.5, "", "x", [], {}, True, "é" * 9]))
        return


@given(data=st.data())
@settings(max_examples=15)
def test_nothing_but_a_refusal_leaves_a_refresh(data: st.DataObject) -> None:
    """A hostile server that knows the form; nothing of tuf, of its libraries or of Python comes out."""
    fleet = hostile()
    name = data.draw(st.sampled_from(["timestamp.json", "2.root.json", "2.snapshot.json", "2.models.json"]))
    kind = data.draw(st.sampled_from(["value", "bytes"]))
    if kind == "value":
        found = json.loads(fleet.files.get(name, fleet.files["1.root.json"]))
        spoil(found, data)
        fleet.replaced[name] = json.dumps(found).encode()
    else:
        fleet.replaced[name] = data.draw(st.binary(max_size=300))
    with tempfile.TemporaryDirectory() as scratch:
        device = TrustingDevice(Path(scratch) / "updates", fleet)
        with contextlib.suppress(UpdateRefused):
            device.trust.refresh()
        fleet.clear_attack()
        device.trust.refresh()
        assert refusal(lambda: device.admit(device.assigned(make_release(1)))) is None


def hostile() -> SignedRepository:
    """One repository for all examples; keys take a while to make."""
    if not _MADE:
        made = SignedRepository()
        made.release(1)
        _MADE.append(made)
    return _MADE[0]


_MADE: list[SignedRepository] = []


@pytest.mark.parametrize(
    "label", ["Fußgänger", "行人", 'a "quoted" one', "with \\ and /", "tab\tand bell\a", "\u2028"]
)
def test_any_text_in_terms_is_verified_as_tuf_verifies_it(label: str, tmp_path: Path) -> None:
    """What is signed is canonical JSON, what tuf writes is not: where the two differ, tuf looks at the file."""
    fleet = SignedRepository()
    fleet.release(1, labels=(label,))
    device = TrustingDevice(tmp_path / "updates", fleet)
    device.trust.refresh()
    folder, bootstrap = device.folder / "metadata", fleet.files["1.root.json"]
    found = by_us(folder, bootstrap)
    assert found == by_tuf(folder, bootstrap) != None  # noqa: E711
    assert found is not None
    assert found["custom"]["labels"] == [label]
    plain = json.loads((folder / "models.json").read_bytes())
    compact = canonical(plain)
    kept = MetadataFolder(folder).kept(bootstrap, 0)
    chain = verify_chain(kept)
    chain.snapshot.meta["models.json"] = MetaFile(fleet.roles["models"].version)
    again = verify_role(chain, replace(kept, files={**kept.files, "models": compact}), "models").target(PATH)
    assert again is not None
    assert again.to_dict() == found, "as the server publishes it"


def test_releases_that_nobody_asks_for_leave_the_collector_nothing() -> None:
    """Records of 200 releases are 8,000 objects; the collector walked through the whole process for them."""
    fleet = SignedRepository()
    for counter in range(1, 201):
        fleet.list_release(make_release(counter))
    said = canonical(fleet.roles["models"].to_dict())
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        found = read_listing(said)
        kept = len(gc.get_objects()) - before
    finally:
        gc.enable()
    assert found is not None
    assert len(found.places) == 200
    assert kept < 100
    for counter in (1, 7, 200):
        target = found.target(f"models/detector/{counter}/bundle.json")
        assert target is not None
        assert target == fleet.roles["models"].targets[target.path]
    assert found.target("models/detector/201/bundle.json") is None


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"targets":{}',
        b'{"targets":{}} ',
        b'{"targets":{},"targets":{}}',
        b'{"targets":{"a":{},"a":{}}}',
        b'{"targets":{"a" :{}}}',
        b'{"targets":{"a":{}},}',
        b'{"targets":[]}',
        b"{1:{}}",
        b'{"_type":"snapshot","targets":{}}',
        b'{"targets":{"\xff":{}}}',
    ],
)
def test_any_other_form_is_left_to_tuf(said: bytes) -> None:
    assert read_listing(said) is None


@pytest.mark.parametrize(
    "file",
    [
        b'{"signatures":%(signatures)s,"signed":%(forged)s,"signed":%(signed)s}',
        b'{"signed":%(forged)s,"signatures":%(signatures)s,"signed":%(signed)s}',
        b'{"signatures":%(signatures)s,"signed":%(signed)s,"signed":%(forged)s}',
        b'{"signatures":%(signatures)s,"more":{"signed":%(forged)s},"signed":%(signed)s}',
        b'{"signatures":%(signatures)s,"signed":%(signed)s,"more":{"x":1,"signed":%(forged)s}}',
    ],
)
def test_nothing_beside_what_is_signed_counts(file: bytes, tmp_path: Path) -> None:
    """A thief of the snapshot's key may list any file: of two contents in it, only the signed one is ever read."""
    fleet = SignedRepository()
    fleet.release(1)
    device = TrustingDevice(tmp_path / "updates", fleet)
    device.trust.refresh()
    kept = MetadataFolder(device.folder / "metadata").kept(fleet.files["1.root.json"], 0)
    plain = json.loads(kept.files["models"])
    signed, signatures = canonical(plain["signed"]), canonical(plain["signatures"])
    plain["signed"]["targets"][PATH]["custom"]["openings"] = []
    forged = file % {b"signed": signed, b"forged": canonical(plain["signed"]), b"signatures": signatures}
    chain = verify_chain(kept)
    chain.snapshot.meta["models.json"] = MetaFile(fleet.roles["models"].version)
    try:
        found = verify_role(chain, replace(kept, files={**kept.files, "models": forged}), "models").target(
            PATH
        )
    except UpdateRefused:
        return
    assert found is not None
    assert found.custom["openings"] != []
