"""Putting keys together and changing them: presets, thresholds, rotation, and what a signer is protected from."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tuf.api.metadata import Metadata

from edge_runtime.errors import ConfigError
from fleet_server.releases.ceremony import begin as ceremony
from fleet_server.releases.ceremony import people_of, preset_of, renew, rotate
from fleet_server.releases.judgement import judge
from fleet_server.releases.people import Person
from fleet_server.releases.problems import ReleaseRefused
from fleet_server.releases.proposal import Proposal, ProposalKind, missing, read_proposal, write_proposal
from fleet_server.releases.repository import fingerprint, parse, verified
from fleet_server.releases.review import review, sign_everything
from fleet_server.releases.roles import ONLINE_ROLES, Duty, Preset
from fleet_server.storage import Store
from tests.rigs.deliveries import FakeClock
from tests.rigs.release_parties import PASSPHRASE, People, SignedFleet, configuration

DAY_MS = 86_400_000


@pytest.mark.parametrize("preset", list(Preset))
def test_a_preset_keeps_its_promise(begin: Callable[[Preset], SignedFleet], preset: Preset) -> None:
    fleet = begin(preset)
    trusted = fleet.trusted()
    assert preset_of(people_of(trusted)) is preset
    for role in ("root", "targets", "models", "configurations"):
        assert len(trusted.keyids(role)) == (2 if preset is Preset.SINGLE else 3)
    shared = trusted.keyids("root") & trusted.keyids("models")
    assert bool(shared) is (preset is not Preset.OFFLINE)
    assert trusted.root.signed.roles["root"].threshold == 2
    assert fleet.publish(configuration(fleet.people.folder / "c"), name="base").counter == 1


@pytest.mark.parametrize(
    ("preset", "names", "sentence"),
    [
        (Preset.TEAM, ("ada", "ben"), "needs 3 people"),
        (Preset.TEAM, (), "needs 3 people"),
        (Preset.SINGLE, ("ada", "ben", "cara"), "one person with two keys"),
        (Preset.OFFLINE, ("ada", "ben", "cara"), "a key of its own for releases"),
    ],
)
def test_people_who_do_not_fit_are_refused(
    fleet: SignedFleet, tmp_path: Path, preset: Preset, names: tuple[str, ...], sentence: str
) -> None:
    people = People.make(tmp_path / "others", Preset.TEAM, names)
    empty = fleet.file().model_copy(update={"roots": ()})
    with pytest.raises(ConfigError, match=sentence):
        ceremony(empty, preset, people.public(), fleet.now_ms)


def test_nobody_counts_twice(fleet: SignedFleet, tmp_path: Path) -> None:
    people = People.make(tmp_path / "others")
    ada, ben, _ = people.public()
    copied = Person(holder="dan", keys=ada.keys)
    two = Person(
        holder="ben", keys=(*ben.keys, *People.make(tmp_path / "more", names=("ben",)).public()[0].keys)
    )
    empty = fleet.file().model_copy(update={"roots": ()})
    for others in ([ada, ben, copied], [ada, two, copied], [ada, ada, ben]):
        with pytest.raises(ConfigError):
            ceremony(empty, Preset.TEAM, others, fleet.now_ms)


def test_a_second_ceremony_is_refused(fleet: SignedFleet) -> None:
    with pytest.raises(ConfigError, match="has its keys already"):
        ceremony(fleet.file(), Preset.TEAM, fleet.people.public(), fleet.now_ms)
    fresh = ceremony(
        fleet.file().model_copy(update={"roots": ()}), Preset.TEAM, fleet.people.public(), fleet.now_ms + 1000
    )
    with pytest.raises(ReleaseRefused, match="has been published since"):
        fleet.desk.publish(fleet.people.sign(fresh, None, "ada", "ben").submission(), "admin")


def test_one_of_two_is_not_enough_and_the_file_says_who_is_missing(
    fleet: SignedFleet, tmp_path: Path
) -> None:
    proposal = rotate(fleet.file(), fleet.trusted(), now_ms=fleet.now_ms, without=(), online=True)
    signed = fleet.people.sign(proposal, fleet.trusted(), "ada")
    assert missing(fleet.trusted(), signed.parsed()) == {"root": 1, "targets": 1}
    with pytest.raises(ReleaseRefused, match=r"needs 2 signatures and has 1 \(ada\)"):
        fleet.desk.publish(signed.submission(), "admin")
    path = tmp_path / "x.proposal"
    write_proposal(path, signed)
    assert read_proposal(path) == signed
    again = fleet.people.sign(read_proposal(path), fleet.trusted(), "ada", "cara")
    assert missing(fleet.trusted(), again.parsed()) == {}
    assert fleet.desk.publish(again.submission(), "admin").versions["root"] == 2


def test_a_person_leaves_and_another_comes(fleet: SignedFleet) -> None:
    fleet.publish(configuration(fleet.people.folder / "c"), name="base")
    dan = fleet.people.join("dan")
    outcome = fleet.rotate("ada", "ben", "dan", people=[dan.person], without=["cara"])
    assert outcome.versions == {"root": 2, "targets": 2, "models": 1, "configurations": 2}, (
        "what ada and ben signed stays"
    )
    assert [person.holder for person in people_of(fleet.trusted())] == ["ada", "ben", "dan"]
    folder = configuration(fleet.people.folder / "d", "a: 1\n")
    with pytest.raises(ReleaseRefused, match="needs 2"):
        fleet.submit(fleet.signed(fleet.propose(folder, name="base"), "ada", "cara"), folder, "base")
    fleet.submit(fleet.signed(fleet.propose(folder, name="base"), "ada", "dan"), folder, "base")


def test_what_the_one_who_leaves_had_signed_is_signed_anew(fleet: SignedFleet) -> None:
    dan = fleet.people.join("dan")
    proposal = rotate(
        fleet.file(), fleet.trusted(), now_ms=fleet.now_ms, people=[dan.person], without=["ben"]
    )
    assert set(proposal.documents) == {"root", "targets", "models", "configurations"}
    with pytest.raises(ReleaseRefused, match="version 2 of root needs 2"):
        fleet.desk.publish(fleet.people.sign(proposal, fleet.trusted(), "ben", "cara").submission(), "admin")
    signed = fleet.people.sign(proposal, fleet.trusted(), "ada", "ben", "dan")
    assert fleet.desk.publish(signed.submission(), "admin").versions["models"] == 2


def test_one_person_becomes_a_team_by_rotation(begin: Callable[[Preset], SignedFleet]) -> None:
    fleet = begin(Preset.SINGLE)
    fleet.publish(configuration(fleet.people.folder / "c"), name="base")
    people = [fleet.people.join(name, Preset.TEAM, f"{name}-team").person for name in ("ada", "ben", "cara")]
    with pytest.raises(ConfigError, match="needs 3 people"):
        rotate(fleet.file(), fleet.trusted(), now_ms=fleet.now_ms, people=people[:2], preset=Preset.TEAM)
    fleet.rotate("ada", "ada-team", "ben-team", people=people, preset=Preset.TEAM)
    assert preset_of(people_of(fleet.trusted())) is Preset.TEAM
    folder = configuration(fleet.people.folder / "d", "a: 1\n")
    with pytest.raises(ReleaseRefused, match="needs 2"):
        fleet.submit(fleet.signed(fleet.propose(folder, name="base"), "ada", "ada-team"), folder, "base")
    signed = fleet.signed(fleet.propose(folder, name="base"), "ada-team", "cara-team")
    assert fleet.submit(signed, folder, "base").state == "published"
    assert verified(fleet.file(), fleet.file().roots[0].encode()) is not None, "from the first root on"


def test_new_online_keys_are_in_force_once_people_took_them_in(fleet: SignedFleet) -> None:
    before = fleet.trusted()
    fleet.desk.renew_keys(ONLINE_ROLES, "admin")
    assert fleet.desk.freshness.keep() == []
    fleet.rotate(online=True)
    after = fleet.trusted()
    for role in ONLINE_ROLES:
        assert after.keyids(role).isdisjoint(before.keyids(role))
        assert fleet.desk.keys.signer(role, after.keyids(role)).public_key.keyid in after.keyids(role)


def test_online_keys_of_another_server_are_refused(fleet: SignedFleet, tmp_path: Path, sqlite: Store) -> None:
    other = SignedFleet.begin(tmp_path / "other", _another_store(tmp_path))
    strange = fleet.file().model_copy(update={"online": other.file().online})
    proposal = rotate(strange, fleet.trusted(), now_ms=fleet.now_ms, online=True)
    with pytest.raises(ReleaseRefused, match="no snapshot key that the signed metadata names"):
        fleet.desk.publish(fleet.people.sign(proposal, fleet.trusted(), "ada", "ben").submission(), "admin")
    other.store.close()


def test_renewed_metadata_says_the_same_for_longer(fleet: SignedFleet, clock: FakeClock) -> None:
    fleet.publish(configuration(fleet.people.folder / "c"), name="base")
    before = fleet.trusted()
    clock.wall_ms += 30 * DAY_MS
    proposal = renew(fleet.file(), before, ["models", "configurations"], fleet.now_ms)
    fleet.desk.publish(fleet.people.sign(proposal, before, "ben", "cara").submission(), "admin")
    after = fleet.trusted()
    assert after.releases().keys() == before.releases().keys()
    for role in ("models", "configurations"):
        gained = after.document(role).signed.expires - before.document(role).signed.expires
        assert gained.days == 30
    with pytest.raises(ConfigError, match="--role"):
        renew(fleet.file(), before, ["timestamp"], fleet.now_ms)
    with pytest.raises(ConfigError, match="nothing would change"):
        rotate(fleet.file(), after, now_ms=fleet.now_ms)


def _tampered(proposal: Proposal, role: str, change: Callable[[dict[str, Any]], None]) -> Proposal:
    data = json.loads(proposal.documents[role])  # type: ignore[index]
    change(data["signed"])
    data["signatures"] = []
    return proposal.model_copy(update={"documents": {**proposal.documents, role: json.dumps(data)}})


def _lower_root(signed: dict[str, Any]) -> None:
    signed["roles"]["root"]["threshold"] = 1


def _lower_models(signed: dict[str, Any]) -> None:
    signed["delegations"]["roles"][0]["threshold"] = 1


def _widen_models(signed: dict[str, Any]) -> None:
    signed["delegations"]["roles"][0]["paths"] = ["*/*/*/*"]


def _director_signs_models(signed: dict[str, Any]) -> None:
    roles = signed["delegations"]["roles"]
    roles[2]["paths"] = ["models/*/*/*"]


def _add_role(signed: dict[str, Any]) -> None:
    roles = signed["delegations"]["roles"]
    roles.insert(0, {**roles[0], "name": "fast-track"})


def _targets_of_its_own(signed: dict[str, Any]) -> None:
    signed["targets"]["models/x/1/bundle.json"] = {"length": 1, "hashes": {"sha256": "0" * 64}}


def _no_snapshots(signed: dict[str, Any]) -> None:
    signed["consistent_snapshot"] = False


def _two_timestamps(signed: dict[str, Any]) -> None:
    signed["roles"]["timestamp"]["keyids"] += signed["roles"]["snapshot"]["keyids"]


@pytest.mark.parametrize(
    ("role", "change"),
    [
        ("root", _lower_root),
        ("root", _no_snapshots),
        ("root", _two_timestamps),
        ("targets", _lower_models),
        ("targets", _widen_models),
        ("targets", _director_signs_models),
        ("targets", _add_role),
        ("targets", _targets_of_its_own),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_root_that_weakens_the_fleet_is_neither_signed_nor_published(
    fleet: SignedFleet, role: str, change: Callable[[dict[str, Any]], None]
) -> None:
    proposal = _tampered(
        rotate(fleet.file(), fleet.trusted(), now_ms=fleet.now_ms, online=True), role, change
    )
    with pytest.raises(ReleaseRefused):
        review(proposal, fleet.people.directories["ben"], fingerprint(fleet.trusted().root), fleet.now_ms)
    signed = fleet.people.sign(proposal, fleet.trusted(), "ada", "ben")
    with pytest.raises(ReleaseRefused):
        fleet.desk.publish(signed.submission(), "admin")


def test_who_signs_is_not_shown_a_made_up_fleet(fleet: SignedFleet, tmp_path: Path) -> None:
    ben = fleet.people.directories["ben"]
    proposal = rotate(fleet.file(), fleet.trusted(), now_ms=fleet.now_ms, online=True)
    with pytest.raises(ConfigError, match="have not seen this fleet's keys before"):
        review(proposal, ben, None, fleet.now_ms)
    with pytest.raises(ConfigError, match="no root here has that fingerprint"):
        review(proposal, ben, "0" * 64, fleet.now_ms)
    reviewed = review(proposal, ben, fingerprint(fleet.trusted().root)[:16], fleet.now_ms)
    assert ben.trusted_root() is not None
    sign_everything(proposal, reviewed, ben, PASSPHRASE)
    other = SignedFleet.begin(tmp_path / "other", _another_store(tmp_path))
    theirs = rotate(other.file(), other.trusted(), now_ms=other.now_ms, online=True)
    with pytest.raises(ReleaseRefused, match="is not the one that you trust"):
        review(theirs, ben, None, fleet.now_ms)
    other.store.close()


def test_nobody_is_talked_into_another_fleet(fleet: SignedFleet, tmp_path: Path) -> None:
    ben = fleet.people.directories["ben"]
    ben.trust(fleet.file().roots[0].encode())
    eve = People.make(tmp_path / "eve", names=("eve", "mallory")).public()
    empty = fleet.file().model_copy(
        update={"roots": (), "targets": None, "models": None, "configurations": None}
    )
    other = ceremony(empty, Preset.TEAM, [ben.person, *eve], fleet.now_ms)
    with pytest.raises(ConfigError, match="trusts a fleet already"):
        review(other, ben, None, fleet.now_ms)
    assert ben.trusted_root() == fleet.file().roots[0].encode()


def test_an_older_repository_is_noticed(fleet: SignedFleet) -> None:
    ben, old = fleet.people.directories["ben"], fleet.file()
    fleet.desk.renew_keys(["director"], "admin")
    fleet.rotate(online=True)
    fresh = renew(fleet.file(), fleet.trusted(), ["models"], fleet.now_ms)
    review(fresh, ben, fingerprint(fleet.trusted().root), fleet.now_ms)
    pinned = parse("root", ben.trusted_root() or b"")
    assert pinned.signed.version == 2, "the newest root that was followed is the one that is trusted"
    with pytest.raises(ReleaseRefused, match="ends with root 1, and you have seen root 2"):
        verified(old, ben.trusted_root())


def test_a_proposal_of_a_person_who_forges_the_base_is_refused(fleet: SignedFleet) -> None:
    """The base travels with the proposal: what ada added to it silently would be signed by ben with the rest."""
    fleet.publish(configuration(fleet.people.folder / "c"), name="base")
    proposal = renew(fleet.file(), fleet.trusted(), ["models"], fleet.now_ms)
    data = json.loads(proposal.base.models or "")
    data["signed"]["targets"]["models/evil/1/bundle.json"] = {"length": 9, "hashes": {"sha256": "1" * 64}}
    forged = proposal.base.model_copy(update={"models": json.dumps(data)})
    with pytest.raises(ReleaseRefused, match="models needs 2"):
        review(
            proposal.model_copy(update={"base": forged}),
            fleet.people.directories["ben"],
            fingerprint(fleet.trusted().root),
            fleet.now_ms,
        )


def test_what_has_run_out_is_not_published(fleet: SignedFleet, clock: FakeClock) -> None:
    proposal = renew(fleet.file(), fleet.trusted(), ["models"], fleet.now_ms)
    signed = fleet.people.sign(proposal, fleet.trusted(), "ada", "ben")
    clock.wall_ms += 91 * DAY_MS
    with pytest.raises(ReleaseRefused, match="has run out"):
        fleet.desk.publish(signed.submission(), "admin")


def test_signatures_of_strangers_are_not_kept(fleet: SignedFleet, tmp_path: Path) -> None:
    eve = People.make(tmp_path / "eve", names=("eve",)).directories["eve"]
    proposal = renew(fleet.file(), fleet.trusted(), ["models"], fleet.now_ms)
    documents = fleet.people.sign(proposal, fleet.trusted(), "ada", "ben").parsed()
    (signer,) = eve.signers(PASSPHRASE, [eve.person.keys[0].keyid])
    documents["models"].sign(signer, append=True)
    fleet.desk.publish(proposal.with_documents(documents).submission(), "admin")
    kept: Metadata[Any] = fleet.trusted().document("models")
    assert set(kept.signatures) <= fleet.trusted().keyids("models")


def test_judge_takes_no_proposal_for_another(fleet: SignedFleet) -> None:
    """What is called a renewal must not bring a release, and a release must not bring keys."""
    folder = configuration(fleet.people.folder / "c")
    release = fleet.signed(fleet.propose(folder, name="base"))
    keys = fleet.people.sign(
        rotate(fleet.file(), fleet.trusted(), now_ms=fleet.now_ms, online=True), fleet.trusted(), "ada", "ben"
    )
    for proposal, kind in ((release, ProposalKind.KEYS), (release, ProposalKind.REVOCATION)):
        with pytest.raises(ReleaseRefused, match="adds 1"):
            judge(fleet.trusted(), kind, proposal.parsed(), fleet.now_ms)
    with pytest.raises(ReleaseRefused, match="nothing else"):
        judge(fleet.trusted(), ProposalKind.RELEASE, keys.parsed(), fleet.now_ms)


def test_everybody_has_the_duties_that_the_metadata_gives(begin: Callable[[Preset], SignedFleet]) -> None:
    people = people_of(begin(Preset.OFFLINE).trusted())
    for person in people:
        assert sorted(key.duties for key in person.keys) == sorted(
            [(Duty.ROOT, Duty.TARGETS), (Duty.RELEASE,)]
        )


def _another_store(folder: Path) -> Store:
    from fleet_server.storage import open_store, upgrade

    store = open_store(f"sqlite:///{folder / 'other.db'}")
    upgrade(store)
    return store
