"""Other terms for a release that is out: signed by two people, the same content, and nothing else of it changes."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from edge_runtime.errors import ConfigError
from edge_runtime.protocol.release import Fit, Opening, ProbationTerms, ReleaseKind
from fleet_server.releases import catalog
from fleet_server.releases.drafting import Revision, propose_terms
from fleet_server.releases.problems import ReleaseRefused
from fleet_server.releases.proposal import Proposal
from fleet_server.storage.operator_tables import AuditRow
from tests.rigs.release_parties import SignedFleet, configuration

HALF = (Opening(basis_points=5_000),)


@pytest.fixture
def target(fleet: SignedFleet, tmp_path: Path) -> str:
    """A release that is out."""
    return fleet.publish(configuration(tmp_path / "c"), name="base", openings=HALF).target


def proposed(fleet: SignedFleet, target: str, **terms: Any) -> Proposal:
    return propose_terms(
        fleet.file(), fleet.trusted(), target, Revision(**terms), reason="a test", now_ms=fleet.now_ms
    )


def test_terms_are_signed_anew(fleet: SignedFleet, target: str) -> None:
    with fleet.store.read() as session:
        before = catalog.release(session, "base", 1, kind=ReleaseKind.CONFIGURATION)
    assert before is not None
    probation = ProbationTerms(seconds=60)
    outcome = fleet.revise(
        target, "the north wing is ready", openings=(Opening(basis_points=10_000),), probation=probation
    )
    assert (outcome.state, outcome.versions["configurations"]) == ("published", 3)
    with fleet.store.read() as session:
        after = catalog.release(session, "base", 1, kind=ReleaseKind.CONFIGURATION)
        act = session.scalars(select(AuditRow).order_by(AuditRow.id.desc())).first()
    assert after is not None
    assert act is not None
    assert (after.sha256, after.bundle, after.published_ms) == (
        before.sha256,
        before.bundle,
        before.published_ms,
    )
    assert after.terms == before.terms.model_copy(
        update={"revision": 2, "openings": (Opening(basis_points=10_000),), "probation": probation}
    )
    assert (act.action, act.subject) == ("release.terms", target)
    assert fleet.trusted().releases()[target].custom == after.terms.custom()
    fleet.revise(target, fit=Fit(hardware=("orin",)))
    assert fleet.trusted().releases()[target].custom["revision"] == 3


def test_one_person_alone_changes_no_terms(fleet: SignedFleet, target: str) -> None:
    proposal = fleet.signed(proposed(fleet, target, openings=()), "ada")
    with pytest.raises(ReleaseRefused) as refused:
        fleet.desk.publish(proposal.submission(), "admin")
    assert refused.value.code == "signatures"


def test_terms_of_an_older_state_are_told_what_to_do(fleet: SignedFleet, target: str) -> None:
    late = fleet.signed(proposed(fleet, target, notes="late"))
    fleet.revise(target, notes="first")
    with pytest.raises(ReleaseRefused) as refused:
        fleet.desk.publish(late.submission(), "admin")
    assert refused.value.code == "conflict"


def test_old_terms_do_not_come_back(fleet: SignedFleet, target: str) -> None:
    """What was signed once is signed for good: it is the version of the metadata that is over."""
    old = fleet.signed(proposed(fleet, target, notes="second"))
    assert fleet.desk.publish(old.submission(), "admin").state == "published"
    fleet.revise(target, notes="third")
    assert fleet.desk.publish(old.submission(), "admin").state == "already", "and is not the newest"
    assert fleet.trusted().releases()[target].custom["notes"] == "third"


def test_terms_that_would_stay_and_releases_that_are_none(fleet: SignedFleet, target: str) -> None:
    with pytest.raises(ConfigError, match="would stay as they are"):
        proposed(fleet, target, openings=HALF)
    with pytest.raises(ConfigError, match="has no release with this counter"):
        proposed(fleet, target, rollback_to=(7,))
    with pytest.raises(ConfigError, match="openings must grow"):
        proposed(fleet, target, openings=(*HALF, *HALF))
    with pytest.raises(ConfigError, match="there is no release"):
        proposed(fleet, "configurations/base/2/bundle.json", notes="x")


@pytest.mark.usefixtures("target")
def test_a_way_back_is_permitted_and_taken_away(fleet: SignedFleet, tmp_path: Path) -> None:
    second = fleet.publish(configuration(tmp_path / "d", "b: 1\n"), name="base", rollback_to=())
    fleet.revise(second.target, rollback_to=(1,))
    with fleet.store.read() as session:
        first = catalog.release(session, "base", 1, kind=ReleaseKind.CONFIGURATION)
        found = catalog.release(session, "base", 2, kind=ReleaseKind.CONFIGURATION)
    assert first is not None
    assert found is not None
    assert found.terms.rollback_to == (first.sha256,)
    strange = proposed(fleet, second.target, rollback_to=())
    document = strange.parsed()["configurations"]
    document.signed.targets[second.target].unrecognized_fields["custom"]["rollback_to"] = ["f" * 64]
    with pytest.raises(ReleaseRefused, match="which is no release of base"):
        fleet.desk.publish(
            fleet.signed(strange.with_documents({"configurations": document})).submission(), "x"
        )


def test_metadata_that_is_full_takes_no_release_and_lets_some_go(
    fleet: SignedFleet, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet_server.releases.judgement.FULL_BYTES", 2_000)
    folder = configuration(tmp_path / "d", "b: 1\n")
    with pytest.raises(
        ReleaseRefused, match="with 2 releases, and 2000 are what a device verifies"
    ) as refused:
        fleet.submit(fleet.signed(fleet.propose(folder, name="base")), folder, "base")
    assert refused.value.code == "full"
    fleet.revise(target, notes="x" * 400)
    fleet.revoke(target)
    assert fleet.publish(folder, name="base").counter == 2
