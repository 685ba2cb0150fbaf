"""Signing what was decided: numbers, ends, nonces and keys, and that a device's own trust accepts it."""

import json
import re
from pathlib import Path

import pytest
from securesystemslib.signer import CryptoSigner

from edge_runtime.protocol.envelope import read_envelope, record_in
from edge_runtime.protocol.release import ReleaseKind
from edge_runtime.protocol.release_values import NumberBounds
from edge_runtime.protocol.update import ASSIGNMENT_TYPE, CONFIGURATION_SLOT, DIRECTOR_ROLE, Assignment
from fleet_server.cli.main import run as fleet_command
from fleet_server.director.desired import MOST_ASSIGNMENTS, MOST_SETTLED, DesiredDraft, compose
from fleet_server.director.issuing import LIFE_MS, RENEW_BEFORE_MS, Director
from fleet_server.director.signing import PublishedSigning
from fleet_server.paths import ServerPaths
from fleet_server.releases.online_keys import OnlineKeys
from fleet_server.releases.problems import ReleaseRefused
from fleet_server.rollouts.service import RolloutService
from fleet_server.storage import Store
from fleet_server.storage.writing import run
from tests.rigs.release_parties import SignedFleet, small_package
from tests.rigs.rollout_fleet import PaperFleet, key_of, names


@pytest.fixture
def fleet(store: Store) -> PaperFleet:
    return PaperFleet(store)


def asked(fleet: PaperFleet, name: str = "dev-0") -> list[Assignment]:
    """What a device would find retained at the broker."""
    (row,) = fleet.rows("SELECT body FROM desired_states WHERE device = ?", name)
    return [fleet.opened(sealed) for sealed in DesiredDraft.decode(bytes(row.body)).assignments]


def test_an_assignment_says_all_that_a_device_checks(fleet: PaperFleet) -> None:
    sha256 = fleet.publish(1)
    fleet.enrol("dev-0", fate="silent")
    rollout = fleet.run(1)
    fleet.service.step(fleet.now_ms)
    (found,) = asked(fleet)
    assert (found.device, found.key_sha256, found.seq) == ("dev-0", key_of("dev-0"), 1)
    assert (found.rollout, found.stage, found.slot) == (rollout, 0, "people")
    assert (found.target, found.sha256) == ("models/people/1/bundle.json", sha256)
    assert (found.root_version, found.snapshot_version) == (3, 7)
    assert (found.issued_ms, found.expires_ms) == (fleet.now_ms, fleet.now_ms + LIFE_MS)
    assert found.nonce is None


def test_it_is_signed_anew_before_its_end_with_the_same_number(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol("dev-0", fate="silent")
    day = 86_400
    fleet.run(1, deadlines={"offered_s": 100 * day})
    fleet.service.step(fleet.now_ms)
    first = asked(fleet)[0]
    fleet.pass_s((LIFE_MS - RENEW_BEFORE_MS) / 1000 - 1)
    assert fleet.service.step(fleet.now_ms).signed == 0
    fleet.pass_s(2)
    assert fleet.service.step(fleet.now_ms).signed == 1
    second = asked(fleet)[0]
    assert second.seq == first.seq
    assert second.expires_ms == fleet.now_ms + LIFE_MS > first.expires_ms


def test_the_nonce_of_the_newest_report_is_repeated_and_a_newer_one_signed_at_once(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol("dev-0", fate="silent")
    fleet.say("dev-0", nonce="a" * 32)
    fleet.run(1)
    fleet.service.step(fleet.now_ms)
    assert asked(fleet)[0].nonce == "a" * 32
    old = fleet.say("dev-0", nonce="b" * 32)
    assert fleet.service.step(fleet.now_ms).signed == 1
    assert asked(fleet)[0].nonce == "b" * 32
    fleet.take([("dev-0", old)])  # said again, it is no newer
    assert fleet.service.step(fleet.now_ms).signed == 0


def test_a_nonce_that_comes_while_it_is_signed_is_not_lost(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol("dev-0", fate="silent")
    fleet.run(1)
    real = fleet.director._signing

    def slowly(reader: object) -> object:
        fleet.say("dev-0", nonce="c" * 32)
        return real(reader)  # type: ignore[arg-type]

    if fleet.store.is_sqlite:
        fleet.service._engine.step(fleet.now_ms)
    fleet.director._signing = slowly  # type: ignore[assignment]
    fleet.service.step(fleet.now_ms)
    fleet.director._signing = real
    fleet.service.step(fleet.now_ms)
    assert asked(fleet)[0].nonce == "c" * 32


def test_a_new_key_of_a_device_has_it_signed_for_that_key(fleet: PaperFleet) -> None:
    """Kind 17: a key that waits for approval gets nothing; one that was accepted gets it anew."""
    fleet.publish(1)
    fleet.enrol("dev-0", fate="silent")
    fleet.run(1)
    fleet.service.step(fleet.now_ms)
    certificate = (
        "INSERT INTO certificates (device, serial, key_sha256, created_ms, changed_ms, state, csr) "
        "VALUES ('dev-0', 'ff', ?, 1, 1, 'pending', '')"
    )
    with fleet.store.engine.begin() as connection:
        run(connection, certificate, "e" * 64)
    fleet.pass_s(61)
    fleet.service.step(fleet.now_ms)
    assert asked(fleet)[0].key_sha256 == key_of("dev-0")
    with fleet.store.engine.begin() as connection:
        run(connection, "UPDATE certificates SET state = 'superseded' WHERE state = 'active'")
        run(connection, "UPDATE certificates SET state = 'active' WHERE serial = 'ff'")
    fleet.pass_s(61)
    fleet.service.step(fleet.now_ms)
    assert asked(fleet)[0].key_sha256 == "e" * 64
    assert asked(fleet)[0].seq == 1


def test_a_device_without_a_certificate_is_asked_once_it_has_one(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol(*names(2), fate="silent")
    with fleet.store.engine.begin() as connection:
        run(connection, "UPDATE certificates SET state = 'pending' WHERE device = 'dev-0'")
    rollout = fleet.run(1)
    assert fleet.service.step(fleet.now_ms).signed == 1
    assert fleet.states(rollout) == {"dev-0": "assigned", "dev-1": "offered"}
    with fleet.store.engine.begin() as connection:
        run(connection, "UPDATE certificates SET state = 'active'")
    fleet.pass_s(61)
    assert fleet.service.step(fleet.now_ms).signed == 1


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({f"v{number}": 1 for number in range(65)}, id="more than an assignment takes"),
        pytest.param({"text": "x" * 60_000}, id="longer than an envelope"),
        pytest.param({"score": 1e9}, id="nobody signed for it"),
    ],
)
def test_what_cannot_be_signed_is_said_once_and_stops_no_other(
    fleet: PaperFleet, values: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    fleet.publish(1)
    fleet.enrol(*names(2), fate="silent")
    rollout = fleet.run(1)
    fleet.service._engine.step(fleet.now_ms)
    with fleet.store.engine.begin() as connection:
        statement = "UPDATE assignments SET device_values = ? WHERE device = 'dev-0'"
        run(connection, statement, json.dumps(values))
    assert fleet.service.step(fleet.now_ms).signed == 1
    assert fleet.states(rollout) == {"dev-0": "assigned", "dev-1": "offered"}
    assert fleet.service.step(fleet.now_ms).signed == 0
    fleet.pass_s(61)
    fleet.service.step(fleet.now_ms)
    assert [record.name for record in caplog.records].count("fleet_server.director") == 1
    with fleet.store.engine.begin() as connection:
        run(connection, "UPDATE assignments SET device_values = NULL")
    fleet.pass_s(61)
    assert fleet.service.step(fleet.now_ms).signed == 1


def test_values_beyond_what_people_signed_are_not_signed_by_the_director(fleet: PaperFleet) -> None:
    """Somebody who writes into the database has not the director's key, and gets no signature from it."""
    bounds = {"score": NumberBounds(type="number", minimum=0.3, maximum=0.7)}
    fleet.publish(1, name="site", kind=ReleaseKind.CONFIGURATION, values=bounds)
    fleet.enrol("dev-0", fate="silent")
    fleet.say("dev-0", slot=CONFIGURATION_SLOT)
    fleet.run(1, slot=CONFIGURATION_SLOT, release="site", values={"score": 0.5})
    fleet.service._engine.step(fleet.now_ms)
    for text, signed in (('{"score": 0.01}', 0), ("{}", 0), ('{"score": 0.6}', 1)):
        with fleet.store.engine.begin() as connection:
            run(connection, "UPDATE assignments SET device_values = ?", text)
        fleet.pass_s(61)
        assert fleet.service.step(fleet.now_ms).signed == signed


def test_a_server_that_cannot_sign_decides_and_says_so_and_signs_later(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol("dev-0")
    rollout = fleet.run(1)
    real = fleet.director._signing

    def refuses(_reader: object) -> object:
        raise ReleaseRefused("online_keys", "this server has no director key")

    fleet.director._signing = refuses  # type: ignore[assignment]
    with pytest.raises(ReleaseRefused):
        fleet.service.step(fleet.now_ms)
    assert fleet.states(rollout) == {"dev-0": "assigned"}
    fleet.director._signing = real
    fleet.rounds(2)
    assert fleet.states(rollout) == {"dev-0": "healthy"}


def test_what_is_too_much_for_one_message_is_the_oldest() -> None:
    sealed = [b'{"n":%d}' % number for number in range(40)]
    found = DesiredDraft.decode(compose("dev-0", sealed, [(seq, 7) for seq in range(100, 0, -1)]))
    assert found.assignments == tuple(sealed[:MOST_ASSIGNMENTS])
    assert found.settled == tuple((seq, 7) for seq in range(101 - MOST_SETTLED, 101))


def test_a_terminal_report_that_comes_again_has_the_device_told_again(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol("dev-0")
    fleet.run(1)
    fleet.rounds(2)
    assert fleet.rows("SELECT state FROM desired_states WHERE state = 'queued'") == []
    (terminal,) = fleet.rows("SELECT terminal_no FROM assignments")
    device = fleet.devices["dev-0"]
    report = device.report(fleet.now_ms, seq=1, state="healthy", terminal=True, left="updated")
    again = report.model_copy(update={"report_no": terminal.terminal_no})
    fleet.take([("dev-0", again)])
    assert len(fleet.rows("SELECT state FROM desired_states WHERE state = 'queued'")) == 1


def test_with_the_keys_of_a_ceremony_the_verified_targets_vouch_for_it(tmp_path: Path, store: Store) -> None:
    people = SignedFleet.begin(tmp_path, store)
    release = people.publish(small_package(tmp_path / "yard"))
    paper = PaperFleet(store, now_ms=people.now_ms)
    signing = PublishedSigning(OnlineKeys(ServerPaths(tmp_path / "server")))
    director = Director(store, signing)
    paper.service = RolloutService(store, paper.clock, paper.audit, director)
    paper.enrol("dev-0", fate="silent")
    paper.say("dev-0", slot="yard")
    plan = paper.plan(release.counter, slot="yard", release="yard")
    rollout = paper.service.create("ada", plan).id
    paper.service.approve("ben", rollout)
    paper.service.start("ada", rollout)
    assert paper.service.step(paper.now_ms).signed == 1

    (row,) = paper.rows("SELECT body FROM desired_states")
    envelope = read_envelope(DesiredDraft.decode(bytes(row.body)).assignments[0], ASSIGNMENT_TYPE)
    people.trusted().targets.signed.verify_delegate(DIRECTOR_ROLE, envelope.pae(), envelope.signatures)
    found = record_in(envelope, Assignment)
    assert (found.target, found.sha256, found.length) == (release.target, release.sha256, release.length)
    assert found.root_version == 1
    assert found.snapshot_version >= 2


def test_before_the_ceremony_it_says_what_to_do(tmp_path: Path, store: Store) -> None:
    signing = PublishedSigning(OnlineKeys(ServerPaths(tmp_path)))
    with store.read() as session, pytest.raises(ReleaseRefused) as refused:
        signing(session)
    commands = re.findall("`(fleet [^`]+)`", str(refused.value))
    assert commands == ["fleet keys init", "fleet release publish"]
    assert [fleet_command([*command.split()[1:], "--help"]) for command in commands] == [0, 0], "they exist"


def test_what_an_earlier_director_signed_is_signed_anew_at_once(fleet: PaperFleet) -> None:
    """Devices that know the new key refuse it, and would wait for its renewal for days."""
    fleet.publish(1)
    fleet.enrol("dev-0", "dev-1", fate="silent")
    fleet.enrol("dev-2", fate="silent", online=False)
    fleet.run(1)
    fleet.service.step(fleet.now_ms)
    before = asked(fleet)
    fleet.say("dev-1", seq=1, state="downloading")
    fleet.signer = CryptoSigner.generate_ed25519()
    fleet.pass_s(61)
    assert fleet.service.step(fleet.now_ms).signed == 1, "what is taken up already needs no other signature"
    after = asked(fleet)  # verified by the new key
    assert [one.seq for one in after] == [one.seq for one in before] == [1]
    fleet.pass_s(61)
    assert fleet.service.step(fleet.now_ms).signed == 0


def test_numbers_that_a_thief_of_the_key_spent_are_in_nobodys_way(fleet: PaperFleet) -> None:
    """The device tells the end of what he asked, and is asked on under this server's own numbers."""
    last = (1 << 53) - 1
    fleet.publish(1)
    fleet.publish(2)
    fleet.enrol("dev-0")
    fleet.run(1)
    fleet.rounds(4, 10)
    fleet.say("dev-0", seq=last, state="refused", terminal=True, code="counter", left="unchanged")
    fleet.signer = CryptoSigner.generate_ed25519()  # people took the key away
    rollout = fleet.run(2)
    fleet.rounds(4, 10)
    assert [one.seq for one in fleet.devices["dev-0"].seen] == [1, 2]
    assert fleet.states(rollout) == {"dev-0": "healthy"}
