"""What the server publishes, and what it refuses whoever signed it."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from edge_runtime.packages.manifest import AccuracyFloor
from edge_runtime.protocol.release import Fit, Opening
from fleet_server.releases import catalog
from fleet_server.releases import content as content_room
from fleet_server.releases.drafting import Wishes, propose_release, propose_revocation, terms_for
from fleet_server.releases.packing import Content, content_of
from fleet_server.releases.problems import ReleaseRefused
from fleet_server.releases.proposal import Proposal, Submission
from fleet_server.settings import ReleaseSettings
from fleet_server.storage import Store
from fleet_server.storage.operator_tables import AuditRow
from fleet_server.storage.release_tables import ReleaseUploadRow
from tests.rigs.deliveries import FakeClock
from tests.rigs.release_parties import SignedFleet, configuration, rewrite, unchecked

DAY_MS = 86_400_000
pytestmark = pytest.mark.timeout(300)  # golden vectors run behind everything else


@pytest.fixture
def overlay(tmp_path: Path) -> Callable[[str], Path]:
    """Folders of configurations."""
    made: Iterator[int] = iter(range(100))
    return lambda text: configuration(tmp_path / f"overlay-{next(made)}", text)


def refused(fleet: SignedFleet, folder: Path | Content, **fields: Any) -> str:
    """The sentence with which the server refuses a release; nothing of it is published."""
    name = fields.get("name")
    before = fleet.trusted()
    with pytest.raises(ReleaseRefused) as caught:
        fleet.submit(fleet.signed(fleet.propose(folder, **fields)), folder, name)
    assert fleet.trusted().version("models") == before.version("models")
    assert fleet.trusted().version("configurations") == before.version("configurations")
    return str(caught.value)


def test_a_model_from_folder_to_catalogue(
    tmp_path: Path, store: Store, clock: FakeClock, packages: Callable[..., Path]
) -> None:
    fleet = SignedFleet.begin(tmp_path, store, clock=clock)
    first = fleet.publish(
        packages(seed=1),
        fit=Fit(hardware=("orin",)),
        openings=(
            Opening(basis_points=200),
            Opening(basis_points=10_000, not_before_ms=clock.wall_ms + DAY_MS),
        ),
        notes="the first",
    )
    second = fleet.publish(packages(seed=2))
    assert (first.counter, second.counter) == (1, 2)
    assert second.terms.rollback_to == (first.sha256,), "the release before, unless somebody says otherwise"
    assert first.terms.opened_basis_points(clock.wall_ms) == 200
    assert first.terms.fit.hardware == ("orin",)
    with store.read() as session:
        assert [one.counter for one in catalog.releases(session, name="yard", limit=9)] == [2, 1]
        assert catalog.release_of_bundle(session, first.sha256) == first
        assert catalog.bundle_bytes(session, first.target, first.sha256) == first.bundle.canonical_bytes()
        assert all(catalog.is_served(session, file.sha256) for file in first.bundle.files)
        with session.connection() as connection:
            assert catalog.release(connection, "yard", 1) == first, "rollouts ask over a connection"
    fleet.revoke(second.target, "it sees ghosts")
    with store.read() as session:
        gone = catalog.release(session, "yard", 2)
        assert gone is not None
        assert (gone.revoked, gone.reason, gone.revoked_by) == (True, "it sees ghosts", "admin")
        assert catalog.bundle_bytes(session, second.target, second.sha256) is None
        weights = next(file.sha256 for file in second.bundle.files if file.path.endswith(".onnx"))
        assert not catalog.is_served(session, weights)
        shared = {file.sha256 for file in first.bundle.files} & {file.sha256 for file in second.bundle.files}
        assert shared, "the same picture is in both"
        assert all(catalog.is_served(session, sha256) for sha256 in shared), (
            "what another release needs stays"
        )
        acts = list(session.scalars(select(AuditRow.action).order_by(AuditRow.id)))
    assert [act for act in acts if not act.endswith("announce")] == [
        "keys.publish",
        "release.publish",
        "release.publish",
        "release.revoke",
    ]
    proposal = fleet.propose(packages(seed=1))
    assert proposal.target == "models/yard/3/bundle.json", "a revoked counter is not given again"


def test_the_same_proposal_again_changes_nothing(fleet: SignedFleet, overlay: Callable[[str], Path]) -> None:
    folder = overlay("a: 1\n")
    proposal = fleet.signed(fleet.propose(folder, name="base"))
    assert fleet.submit(proposal, folder, "base").state == "published"
    before = fleet.file()
    assert fleet.submit(proposal, folder, "base").state == "already"
    revocation = fleet.signed(
        propose_revocation(
            fleet.file(), fleet.trusted(), str(proposal.target), reason="x", now_ms=fleet.now_ms
        )
    )
    assert fleet.file() == before
    assert fleet.desk.publish(revocation.submission(), "admin").state == "published"
    assert fleet.desk.publish(revocation.submission(), "admin").state == "already"
    assert fleet.desk.publish(proposal.submission(), "admin").state == "already", "and does not come back"
    assert fleet.trusted().releases() == {}


def test_of_two_proposals_in_flight_the_second_is_told_what_to_do(
    fleet: SignedFleet, overlay: Callable[[str], Path]
) -> None:
    one, two = overlay("a: 1\n"), overlay("a: 2\n")
    first, second = (fleet.signed(fleet.propose(folder, name="base")) for folder in (one, two))
    fleet.submit(first, one, "base")
    with pytest.raises(ReleaseRefused) as caught:
        fleet.submit(second, two, "base")
    assert caught.value.code == "conflict"
    assert str(caught.value) == (
        "this was made on version 1 of configurations, and version 2 has been published since: export the "
        "repository again and sign it anew"
    )
    fleet.submit(fleet.signed(fleet.propose(two, name="base")), two, "base")


def test_a_model_and_a_configuration_in_flight_do_not_meet(
    fleet: SignedFleet, overlay: Callable[[str], Path], packages: Callable[..., Path]
) -> None:
    folder = overlay("a: 1\n")
    model, other = (
        fleet.signed(fleet.propose(packages(seed=1))),
        fleet.signed(fleet.propose(folder, name="base")),
    )
    fleet.submit(other, folder, "base")
    assert fleet.submit(model, packages(seed=1)).state == "published"


@pytest.mark.parametrize("names", [("ada",), ("ada", "ada")])
def test_one_signature_is_not_enough(
    fleet: SignedFleet, overlay: Callable[[str], Path], names: tuple[str, ...]
) -> None:
    folder = overlay("a: 1\n")
    proposal = fleet.signed(fleet.propose(folder, name="base"), *names)
    for act in (fleet.desk.announce, fleet.desk.publish):
        with pytest.raises(ReleaseRefused, match="needs 2 signatures and has 1"):
            act(proposal.submission(), "admin")
    with fleet.store.read() as session:
        assert session.scalars(select(ReleaseUploadRow)).all() == [], "and no file is awaited"


# what two people signed and should not have


def spoilt(folder: Path, tmp_path: Path, **fields: Any) -> Path:
    """A copy of a package with another manifest."""
    return rewrite(shutil.copytree(folder, tmp_path / "spoilt"), **fields)


def test_wrong_licence(fleet: SignedFleet, packages: Callable[..., Path]) -> None:
    """R000-30."""
    folder = packages(seed=1, spdx="AGPL-3.0-only")
    assert "AGPL-3.0-only is not on this server's list" in refused(fleet, folder)


def test_never_evaluated(fleet: SignedFleet, packages: Callable[..., Path]) -> None:
    assert "was never evaluated" in refused(fleet, packages(seed=1, accuracy=None))


def test_without_golden_vectors(fleet: SignedFleet, packages: Callable[..., Path], tmp_path: Path) -> None:
    folder = spoilt(packages(seed=1), tmp_path, golden=())
    shutil.rmtree(folder / "golden")
    assert "has no golden vectors" in refused(fleet, folder)


def test_failing_golden_vectors(fleet: SignedFleet, packages: Callable[..., Path], tmp_path: Path) -> None:
    """The weights of another package, named by the manifest as they should be."""
    other = packages(seed=2)
    folder = shutil.copytree(packages(seed=1), tmp_path / "mixed")
    shutil.copy(other / "yard.onnx", folder / "yard.onnx")
    manifest = json.loads((other / "manifest.json").read_text())
    found = json.loads((folder / "manifest.json").read_text())
    found["weights"], found["version"] = manifest["weights"], manifest["version"]
    (folder / "manifest.json").write_text(json.dumps(found))
    assert "is not fit: golden" in refused(fleet, folder)


def test_below_its_own_floor(fleet: SignedFleet, packages: Callable[..., Path], tmp_path: Path) -> None:
    folder = spoilt(packages(seed=1), tmp_path, accuracy_floor=AccuracyFloor(metric="map", minimum=0.6))
    assert "map 0.5 is below the package's own floor 0.6" in refused(fleet, folder)


def test_less_accurate_than_the_release_before(
    fleet: SignedFleet, packages: Callable[..., Path], tmp_path: Path
) -> None:
    fleet.publish(packages(seed=1))
    assert "fell by 2.00 points against release 1, more than the 0.5" in refused(
        fleet, packages(seed=2, accuracy=0.48)
    )
    assert "measured on nothing that release 1" in refused(fleet, packages(seed=2, dataset="elsewhere"))


def test_other_labels_without_saying_so(fleet: SignedFleet, packages: Callable[..., Path]) -> None:
    fleet.publish(packages(seed=1))
    assert "has other labels than release 1" in refused(fleet, packages(seed=2, labels=("pallet", "crate")))


def test_another_package_than_its_terms(fleet: SignedFleet, packages: Callable[..., Path]) -> None:
    """R001-32: what the manifest is, and what the registry says that it is, are one thing."""
    content, other = content_of(packages(seed=1)), content_of(packages(seed=2))
    file, trusted = fleet.file(), fleet.trusted()
    right = terms_for(file, trusted, content, Wishes())
    assert other.manifest is not None
    for change, sentence in (
        ({"package": other.manifest.digest()}, "and its terms are of"),
        ({"labels": ("crate",)}, "are not those of its package"),
        ({"licence": "MIT"}, "its terms say MIT"),
        ({"total_bytes": 1}, "another kind, name or size"),
        ({"rollback_to": ("f" * 64,)}, "which is no release of yard"),
    ):
        terms = right.model_copy(update=change)
        proposal = fleet.signed(propose_release(file, trusted, content.bundle, terms, fleet.now_ms))
        with pytest.raises(ReleaseRefused, match=sentence):
            fleet.submit(proposal, packages(seed=1))


def test_a_bundle_that_was_not_signed(fleet: SignedFleet, packages: Callable[..., Path]) -> None:
    proposal = fleet.signed(fleet.propose(packages(seed=1)))
    other = content_of(packages(seed=2)).bundle.canonical_bytes().decode()
    for bundle in (other, None, "{}"):
        with pytest.raises(ReleaseRefused):
            fleet.desk.announce(
                Submission(**{**proposal.submission().model_dump(), "bundle": bundle}), "admin"
            )
    with pytest.raises(ReleaseRefused, match="about another release"):
        fleet.desk.announce(
            proposal.submission().model_copy(update={"target": "models/other/1/bundle.json"}), "admin"
        )


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"overlay.yaml": "- a\n"}, "no mapping"),
        ({"overlay.yaml": "a: [\n"}, "cannot be read"),
        ({"overlay.yaml": "!!python/object/apply:os.system [x]\n"}, "cannot be read"),
        ({"overlay.yaml": "a: !!bool maybe\n"}, "cannot be read"),
        ({"overlay.yaml": "just words\n"}, "no mapping"),
    ],
)
def test_a_configuration_that_is_none(
    fleet: SignedFleet, tmp_path: Path, files: dict[str, str], sentence: str
) -> None:
    folder = configuration(tmp_path / "c")
    for name, text in files.items():
        (folder / name).write_text(text)
    with pytest.raises(ReleaseRefused, match=sentence):
        content_of(folder, "base")
    assert sentence in refused(fleet, unchecked(folder)), "whoever packed it had another tool"


def test_a_counter_that_was_given_before(fleet: SignedFleet, overlay: Callable[[str], Path]) -> None:
    target = fleet.publish(overlay("a: 1\n"), name="base", counter=7).target
    fleet.revoke(target)
    folder = overlay("a: 2\n")
    assert "had a release 7 already" in refused(fleet_without_counters(fleet), folder, name="base", counter=7)
    assert fleet.publish(folder, name="base").counter == 8


def fleet_without_counters(fleet: SignedFleet) -> SignedFleet:
    """Whose exports do not say which counters were given, as an older export would not."""

    class Forgetful(SignedFleet):
        def file(self) -> Any:
            return super().file().model_copy(update={"counters": {}})

    return Forgetful(**{name: getattr(fleet, name) for name in SignedFleet.__dataclass_fields__})


def test_a_release_is_never_changed_by_the_way(fleet: SignedFleet, overlay: Callable[[str], Path]) -> None:
    target = fleet.publish(overlay("a: 1\n"), name="base").target
    proposal = fleet.propose(overlay("a: 2\n"), name="base")
    attempts: tuple[tuple[dict[str, Any], str], ...] = (
        ({"custom": {"total_bytes": 9}}, r"\(total_bytes\): a release stays as it was signed"),
        ({"custom": {"salt": "0" * 32}}, r"\(salt\): a release stays as it was signed"),
        ({"length": 9}, "its content"),
        ({"custom": {"openings": []}}, "these are of revision 1: export"),
        ({"custom": {"openings": [], "revision": 2}}, "and gives other terms to 1"),
    )
    for changes, sentence in attempts:
        data = json.loads(proposal.documents["configurations"])
        old = data["signed"]["targets"][target]
        data["signed"]["targets"][target] = {
            **old,
            **changes,
            "custom": {**old["custom"], **changes.get("custom", {})},
        }
        changed = proposal.model_copy(update={"documents": {"configurations": json.dumps(data)}})
        with pytest.raises(ReleaseRefused, match=sentence):
            fleet.desk.announce(fleet.signed(changed).submission(), "admin")


# files


def test_files_come_by_pieces_and_go_on_where_they_stand(
    fleet: SignedFleet, packages: Callable[..., Path]
) -> None:
    folder = packages(seed=1)
    proposal = fleet.signed(fleet.propose(folder))
    content = content_of(folder)
    places = {file.sha256: content.files[file.path] for file in content.bundle.files}
    with pytest.raises(ReleaseRefused, match="no announced proposal names this file"):
        fleet.desk.uploads.append(content.bundle.files[0].sha256, 0, b"x")
    for awaited in fleet.desk.announce(proposal.submission(), "admin"):
        data, half = places[awaited.sha256].read_bytes(), awaited.bytes // 2
        assert fleet.desk.uploads.append(awaited.sha256, 0, data[:half]).offset == half
        with pytest.raises(ReleaseRefused, match=f"stands at {half}"):
            fleet.desk.uploads.append(awaited.sha256, 0, data[:half])
        with pytest.raises(ReleaseRefused, match="names"):
            fleet.desk.uploads.append(awaited.sha256, half, data)
    with pytest.raises(ReleaseRefused, match="are not here yet"):
        fleet.desk.publish(proposal.submission(), "admin")
    for awaited in fleet.desk.announce(proposal.submission(), "admin"):
        assert awaited.offset == awaited.bytes // 2
        rest = places[awaited.sha256].read_bytes()[awaited.offset :]
        assert fleet.desk.uploads.append(awaited.sha256, awaited.offset, rest).offset == awaited.bytes
    assert fleet.desk.announce(proposal.submission(), "admin") == []


def test_other_bytes_under_a_digest_begin_anew(fleet: SignedFleet, packages: Callable[..., Path]) -> None:
    proposal = fleet.signed(fleet.propose(packages(seed=1)))
    (awaited, *_) = fleet.desk.announce(proposal.submission(), "admin")
    with pytest.raises(ReleaseRefused, match="another digest"):
        fleet.desk.uploads.append(awaited.sha256, 0, bytes(awaited.bytes))
    assert fleet.desk.uploads.standing(awaited.sha256).offset == 0
    assert not fleet.desk.blobs.whole(awaited.sha256).exists()


def test_a_look_that_takes_long_is_asked_for_again(
    fleet: SignedFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content_room, "PATIENCE_S", 0.0)
    good, bad = configuration(tmp_path / "good"), configuration(tmp_path / "bad", "- no mapping\n")
    for content, sentence in ((unchecked(good), None), (unchecked(bad), "no mapping")):
        proposal = fleet.signed(fleet.propose(content))
        fleet.upload(proposal, content)
        if sentence is None:
            assert fleet.submit(proposal, content).state == "published"
        else:
            for _ in range(2):
                with pytest.raises(ReleaseRefused, match=sentence):
                    fleet.submit(proposal, content)


def test_what_is_here_is_not_sent_again(fleet: SignedFleet, packages: Callable[..., Path]) -> None:
    fleet.publish(packages(seed=1))
    proposal = fleet.signed(fleet.propose(packages(seed=1, accuracy=0.51)))
    awaited = {one.sha256 for one in fleet.desk.announce(proposal.submission(), "admin")}
    names = {
        file.path
        for file in content_of(packages(seed=1, accuracy=0.51)).bundle.files
        if file.sha256 in awaited
    }
    assert names == {"manifest.json"}


def test_what_is_announced_and_never_published_is_forgotten(
    fleet: SignedFleet, packages: Callable[..., Path], clock: FakeClock
) -> None:
    proposal = fleet.signed(fleet.propose(packages(seed=1)))
    fleet.upload(proposal, content_of(packages(seed=1)))
    blobs = [path for path in fleet.desk.blobs.whole("0" * 64).parent.parent.rglob("*") if path.is_file()]
    assert blobs
    assert fleet.desk.uploads.tidy() == 0
    clock.wall_ms += 8 * DAY_MS
    assert fleet.desk.uploads.tidy() == len(blobs)
    assert not any(path.exists() for path in blobs)


def test_tidying_leaves_what_a_release_needs(
    fleet: SignedFleet, packages: Callable[..., Path], clock: FakeClock
) -> None:
    published = fleet.publish(packages(seed=1))
    other = fleet.signed(fleet.propose(packages(seed=1, accuracy=0.51)))
    fleet.desk.announce(other.submission(), "admin")
    clock.wall_ms += 8 * DAY_MS
    assert fleet.desk.uploads.tidy() == 1
    assert all(fleet.desk.blobs.has(file.sha256, file.bytes) for file in published.bundle.files)


def test_the_quota_counts_what_was_promised(tmp_path: Path, packages: Callable[..., Path]) -> None:
    settings = ReleaseSettings(quota_bytes=1 << 20, keep_free_bytes=0)
    fleet = SignedFleet.begin(tmp_path, fleet_store(tmp_path), settings=settings)
    large = configuration(tmp_path / "large")
    (large / "labels.json").write_text(json.dumps(["x" * 700_000]))
    for _ in range(2):  # announced again, it counts once
        fleet.desk.announce(fleet.signed(fleet.propose(large, name="large")).submission(), "admin")
    other = configuration(tmp_path / "other")
    (other / "labels.json").write_text(json.dumps(["y" * 700_000]))
    with pytest.raises(ReleaseRefused, match="quota") as caught:
        fleet.desk.announce(fleet.signed(fleet.propose(other, name="other")).submission(), "admin")
    assert caught.value.status == 507
    fleet.store.close()


def test_a_program_among_the_blobs_is_found_by_the_server_itself(fleet: SignedFleet, tmp_path: Path) -> None:
    """Whoever packed it had another tool."""
    changed = unchecked(configuration(tmp_path / "c", "#!/bin/sh\n"))
    proposal: Proposal = fleet.signed(fleet.propose(changed))
    fleet.upload(proposal, changed)
    with pytest.raises(ReleaseRefused, match="it is a script") as caught:
        fleet.desk.publish(proposal.submission(), "admin")
    assert caught.value.code == "executable-content"


def fleet_store(folder: Path) -> Store:
    from fleet_server.storage import open_store, upgrade

    store = open_store(f"sqlite:///{folder / 'another.db'}")
    upgrade(store)
    return store
