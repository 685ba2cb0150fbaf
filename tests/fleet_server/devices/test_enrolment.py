"""From a token to a certificate: who gets in, who waits, who is refused, and what is counted and audited."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from sqlalchemy import select

from edge_runtime.protocol.delivery import PresenceState
from edge_runtime.protocol.enrolment import EnrolmentState, EnrolmentToken
from fleet_server.devices import DeviceProblem, ProblemCode
from fleet_server.devices.admission import MAX_PENDING
from fleet_server.devices.invitations import MAX_WRONG_SECRETS
from fleet_server.ingest import Arrival, Committer, Limits, Now, Rules, inspect
from fleet_server.storage import Store
from fleet_server.storage.device_tables import PresenceRow
from tests.rigs.deliveries import DeviceRig
from tests.rigs.enrolments import BROKER, Asker, Office, serial_of


@pytest.fixture
def office(store: Store, tmp_path: Path) -> Office:
    return Office(store, tmp_path)


def refusal(office: Office, asker: Asker, token: str, **changed: Any) -> ProblemCode:
    with pytest.raises(DeviceProblem) as caught:
        office.service.enrol(asker.request(token, **changed))
    text = str(caught.value)
    assert "\n" not in text
    assert EnrolmentToken.parse(token).secret not in text
    return caught.value.code


def test_a_token_lets_one_device_in(office: Office) -> None:
    invitation = office.registry.invite("alice", labels={"site": "north"})
    asker = Asker(name="dev-1", serial="SN-1")
    answer = office.service.enrol(asker.request(invitation.token))
    assert answer.state is EnrolmentState.ACTIVE
    assert (answer.device, answer.broker, answer.authority) == ("dev-1", BROKER, office.authority.pem)
    certificate = x509.load_pem_x509_certificate((answer.certificate or "").encode())
    assert office.authority.has_signed(certificate)
    assert certificate.public_key() == asker.key.public_key()
    subject = {part.oid: part.value for part in certificate.subject}
    assert subject == {
        NameOID.COMMON_NAME: "dev-1",
        NameOID.ORGANIZATIONAL_UNIT_NAME: f"{certificate.serial_number:x}",
    }
    assert 19.9 < answer.renew_after_s / 86_400 < 20.1
    row = office.device("dev-1")
    assert (row.state, row.serial, row.labels) == ("active", "SN-1", {"site": "north"})
    assert office.good() == {("dev-1", serial_of(answer.certificate))}
    assert office.generation() == 1
    assert office.actions() == ["device.invite", "device.enrolled"]
    assert office.service.counts() == {"active": 1}


def test_who_is_let_in_is_given_the_root_of_releases_and_who_waits_is_not(office: Office) -> None:
    roots = iter(["first", "second", "third"])
    office.service.release_root = lambda: next(roots)
    asker = Asker(name="dev-1")
    token = office.registry.invite("alice", needs_approval=True).token
    assert office.service.enrol(asker.request(token)).release_root is None
    office.registry.approve("alice", "dev-1")
    active = office.service.enrol(asker.request(token))
    assert (active.state, active.release_root) == (EnrolmentState.ACTIVE, "first")
    renewed = office.service.renew(asker.renewal(active.certificate or "", office.service.challenge().nonce))
    assert renewed.release_root is None  # a root is never replaced in silence
    assert office.service.enrol(asker.request(token)).release_root == "second"


def test_a_second_use_is_refused_and_audited_but_a_repeat_is_answered(office: Office) -> None:
    token = office.registry.invite("alice").token
    first, thief = Asker(name="dev-1"), Asker(name="dev-2")
    answer = office.service.enrol(first.request(token))
    assert refusal(office, thief, token) is ProblemCode.TOKEN_USED
    again = office.service.enrol(first.request(token))  # its answer was lost on the way
    assert again.certificate == answer.certificate
    assert office.acts[-1][1:] == (
        "enrolment.refused",
        office.acts[-1][2],
        {"code": "token_used", "serial": None},
    )
    assert office.service.counts() == {"active": 2, "token_used": 1}
    assert office.good() == {("dev-1", serial_of(answer.certificate))}


def test_an_expired_token_lets_no_new_key_in(office: Office) -> None:
    token = office.registry.invite("alice", expires_s=600).token
    other = office.registry.invite("alice", expires_s=600, needs_approval=True).token
    waiting = Asker(name="dev-2")
    office.service.enrol(waiting.request(other))
    office.clock.pass_s(601)
    assert refusal(office, Asker(name="dev-1"), token) is ProblemCode.TOKEN_EXPIRED
    assert office.service.enrol(waiting.request(other)).state is EnrolmentState.PENDING  # it only asks again


def test_wrong_secrets_make_a_token_void_and_look_like_an_unknown_one(office: Office) -> None:
    token = office.registry.invite("alice").token
    unknown = str(EnrolmentToken(id="0" * 16, secret="x" * 43, authority="0" * 64))
    texts = set()
    for text, secret in [(unknown, "x" * 43)] + [(token, "y" * 43)] * (MAX_WRONG_SECRETS + 3):
        with pytest.raises(DeviceProblem) as caught:
            office.service.enrol(Asker().request(text, secret=secret))
        texts.add((caught.value.code, str(caught.value)))
    assert {code for code, _ in texts} == {ProblemCode.TOKEN_REFUSED}
    assert len(texts) == 1
    assert office.actions().count("enrolment.refused") == MAX_WRONG_SECRETS  # bounded
    assert refusal(office, Asker(name="dev-1"), token) is ProblemCode.TOKEN_VOID
    assert office.service.counts()["token_refused"] == MAX_WRONG_SECRETS + 4
    assert office.good() == set()


def test_nine_wrong_secrets_leave_a_token_good(office: Office) -> None:
    token = office.registry.invite("alice").token
    for _ in range(MAX_WRONG_SECRETS - 1):
        assert refusal(office, Asker(), token, secret="y" * 43) is ProblemCode.TOKEN_REFUSED
    assert office.service.enrol(Asker(name="dev-1").request(token)).state is EnrolmentState.ACTIVE


def test_a_known_id_with_a_new_key_waits_and_the_old_one_goes_on(office: Office) -> None:
    old, new = Asker(name="dev-1"), Asker(name="dev-1")
    before = office.service.enrol(old.request(office.registry.invite("alice").token))
    token = office.registry.invite("alice").token
    answer = office.service.enrol(new.request(token))
    assert answer.state is EnrolmentState.PENDING
    assert answer.certificate is None
    assert office.good() == {("dev-1", serial_of(before.certificate))}
    assert office.service.enrol(new.request(token)).state is EnrolmentState.PENDING
    accepted = office.registry.approve("bob", "dev-1")
    assert accepted.superseded == 1
    after = office.service.enrol(new.request(token))
    assert after.state is EnrolmentState.ACTIVE
    assert office.good() == {("dev-1", serial_of(after.certificate))}
    assert office.out() == {serial_of(before.certificate)}
    assert refusal(office, old, token) is ProblemCode.KEY_REFUSED
    assert office.acts[-1][1] != "device.enrolled"


def test_keys_that_wait_are_few_and_are_told_apart(office: Office) -> None:
    office.service.enrol(Asker(name="dev-1").request(office.registry.invite("alice").token))
    askers = [Asker(name="dev-1") for _ in range(MAX_PENDING)]
    for asker in askers:
        office.service.enrol(asker.request(office.registry.invite("alice").token))
    token = office.registry.invite("alice").token
    assert refusal(office, Asker(name="dev-1"), token) is ProblemCode.TOO_MANY_PENDING
    with pytest.raises(DeviceProblem, match="4 keys of dev-1 wait") as caught:
        office.registry.approve("bob", "dev-1")
    assert caught.value.code is ProblemCode.KEY_AMBIGUOUS
    with pytest.raises(DeviceProblem, match="no key of dev-1 that waits has this digest"):
        office.registry.approve("bob", "dev-1", "0" * 64)
    with office.store.read() as session:
        from sqlalchemy import select

        from fleet_server.storage.device_tables import CertificateRow

        digests = list(
            session.scalars(select(CertificateRow.key_sha256).where(CertificateRow.state == "pending"))
        )
    office.registry.approve("bob", "dev-1", digests[2])
    assert sorted(office.certificates("dev-1")) == ["active", *["superseded"] * MAX_PENDING]
    assert office.service.enrol(Asker(name="dev-1").request(token)).state is EnrolmentState.PENDING


def test_a_batch_lets_each_listed_serial_in_once(office: Office) -> None:
    token = office.registry.invite("line", serials=["A/1", "A/2", "A/2"], labels={"batch": "7"}).token
    first = office.service.enrol(Asker(serial="A/1").request(token))
    assert first.device == "a-1"
    assert refusal(office, Asker(serial="A/1"), token) is ProblemCode.SERIAL_NOT_LISTED
    assert refusal(office, Asker(serial="B/1"), token) is ProblemCode.SERIAL_NOT_LISTED
    assert refusal(office, Asker(), token) is ProblemCode.SERIAL_REQUIRED
    assert office.service.enrol(Asker(serial="A/2").request(token)).device == "a-2"
    assert refusal(office, Asker(serial="A/2"), token) is ProblemCode.TOKEN_USED
    assert office.device("a-2").labels == {"batch": "7"}


def test_a_serial_that_is_known_is_the_known_device(office: Office) -> None:
    office.service.enrol(Asker(name="dev-1", serial="SN-1").request(office.registry.invite("alice").token))
    answer = office.service.enrol(
        Asker(name="dev-9", serial="SN-1").request(office.registry.invite("a").token)
    )
    assert (answer.device, answer.state) == ("dev-1", EnrolmentState.PENDING)
    bound = office.registry.invite("alice", device="dev-2").token
    assert refusal(office, Asker(serial="SN-1"), bound) is ProblemCode.SERIAL_TAKEN


@pytest.mark.parametrize(
    ("asker", "common_name", "expected"),
    [
        (Asker(name="dev-1"), "dev-2", "dev-1"),
        (Asker(), "dev-2", "dev-2"),
        (Asker(), "Not a name; DROP TABLE devices", None),
        (Asker(), "fleet-ingest", None),
        (Asker(), "dev-2\n", None),
        (Asker(serial="JX 14/9".replace(" ", "")), None, "jx14-9"),
        (Asker(serial="fleet-ingest"), None, "device-fleet-ingest"),
        (Asker(serial="!!!"), None, None),
        (Asker(serial="x" * 64), None, "x" * 63),
    ],
)
def test_names(office: Office, asker: Asker, common_name: str | None, expected: str | None) -> None:
    token = office.registry.invite("alice").token
    answer = office.service.enrol(asker.request(token, csr=Asker(key=asker.key).csr(common_name)))
    assert answer.device == expected or (expected is None and answer.device.startswith("device-"))
    assert office.service.enrol(asker.request(token)).device == answer.device


def test_a_made_name_never_meets_another_device(office: Office) -> None:
    office.service.enrol(Asker(name="sn-1").request(office.registry.invite("alice").token))
    answer = office.service.enrol(Asker(serial="SN-1").request(office.registry.invite("alice").token))
    assert answer.state is EnrolmentState.ACTIVE
    assert answer.device.startswith("sn-1-")


def test_the_servers_own_names_are_nobodys(office: Office) -> None:
    """A device called fleet-ingest would have the server's permissions at the broker."""
    token = office.registry.invite("alice").token
    assert refusal(office, Asker(name="fleet-ingest"), token) is ProblemCode.NAME_RESERVED
    with pytest.raises(DeviceProblem, match="the server's own"):
        office.registry.invite("alice", device="fleet-ingest")


@pytest.mark.parametrize("device", ["", "Dev-1", "dev-1\n", "dev-1-", "a" * 64])
def test_an_invitation_for_what_is_no_name_is_refused(office: Office, device: str) -> None:
    with pytest.raises(DeviceProblem, match="1 to 63 lower-case letters"):
        office.registry.invite("alice", device=device)


def test_an_invitation_may_ask_for_approval(office: Office) -> None:
    token = office.registry.invite("alice", needs_approval=True).token
    asker = Asker(name="dev-1")
    assert office.service.enrol(asker.request(token)).state is EnrolmentState.PENDING
    assert office.device("dev-1").state == "pending"
    assert office.good() == set()
    office.registry.approve("bob", "dev-1")
    assert office.service.enrol(asker.request(token)).state is EnrolmentState.ACTIVE
    assert office.device("dev-1").state == "active"


def test_a_revoked_device_is_out_and_comes_back_only_by_approval(office: Office) -> None:
    asker = Asker(name="dev-1")
    token = office.registry.invite("alice").token
    before = office.service.enrol(asker.request(token))
    assert office.registry.revoke("bob", "dev-1", "stolen from the depot") == 1
    assert office.good() == set()
    assert office.out() == {serial_of(before.certificate)}
    assert office.generation() == 2
    assert refusal(office, asker, token) is ProblemCode.KEY_REFUSED
    new = Asker(name="dev-1")
    assert (
        office.service.enrol(new.request(office.registry.invite("a").token)).state is EnrolmentState.PENDING
    )
    assert office.good() == set()
    office.registry.approve("bob", "dev-1")
    assert len(office.good()) == 1
    assert office.acts[2][0:3] == ("bob", "device.revoke", "dev-1")
    assert office.acts[2][3]["reason"] == "stolen from the depot"


def test_a_stolen_key_leaves_no_session_behind_that_the_device_never_reaches(
    office: Office, store: Store
) -> None:
    office.service.enrol(Asker(name="dev-1").request(office.registry.invite("alice").token))
    rig = DeviceRig("dev-1")

    def hear(session: int, state: PresenceState) -> str | None:
        topic, payload = rig.presence(session, state)
        parcel = inspect(Arrival(topic, payload, 0), Rules(), Now(0, 0))
        Committer(store, Limits()).commit([parcel], 1)
        with store.read() as reading:
            return reading.scalar(select(PresenceRow.state).filter_by(device="dev-1"))

    assert hear(7, PresenceState.ONLINE) == "online"
    assert hear((1 << 63) - 1, PresenceState.OFFLINE) == "offline"  # by who stole the key
    office.registry.revoke("bob", "dev-1", "stolen")
    office.service.enrol(Asker(name="dev-1").request(office.registry.invite("a").token))
    assert hear(8, PresenceState.ONLINE) == "offline"
    office.registry.approve("bob", "dev-1")
    assert hear(8, PresenceState.ONLINE) == "online"
    assert hear(7, PresenceState.OFFLINE) == "online"


def test_what_the_broker_kept_of_a_stolen_key_keeps_nobody_out(office: Office, store: Store) -> None:
    office.service.enrol(Asker(name="dev-1").request(office.registry.invite("alice").token))
    rig, committer = DeviceRig("dev-1"), Committer(store, Limits())

    def hear(session: int, *, retained: bool) -> tuple[int, str] | None:
        message = rig.presence(session)
        committer.commit([inspect(Arrival(*message, 0, retained=retained), Rules(), Now(0, 0))], 1)
        with store.read() as reading:
            found = reading.execute(select(PresenceRow.session, PresenceRow.state).filter_by(device="dev-1"))
            return next(((row.session, row.state) for row in found), None)

    assert hear(1 << 52, retained=False) == (1 << 52, "online")  # by who stole the key
    office.registry.revoke("bob", "dev-1", "stolen")
    office.service.enrol(Asker(name="dev-1").request(office.registry.invite("a").token))
    office.registry.approve("bob", "dev-1")
    # ingest subscribes anew before the device is born: the thief's message comes again
    assert hear(1 << 52, retained=True) == (0, "online")
    assert hear(8, retained=False) == (8, "online")
    assert hear(8, retained=True) == (8, "online")
    assert hear(9, retained=True) == (9, "online")  # born while ingest was away


def test_an_accepted_key_has_all_of_its_outbox_files_before_it(office: Office, store: Store) -> None:
    office.service.enrol(Asker(name="dev-1").request(office.registry.invite("alice").token))
    committer, own = Committer(store, Limits(max_epochs=3)), DeviceRig("dev-1")

    def high(rig: DeviceRig, *messages: tuple[str, bytes]) -> int:
        parcels = [inspect(Arrival(*message, 0), Rules(), Now(0, 0)) for message in messages]
        (answer,) = committer.commit(parcels, 1).answers
        return answer.high

    assert high(own, own.bundle(own.item(), own.item())) == 2
    for _ in range(2):  # by who stole the key
        thief = DeviceRig("dev-1")
        assert high(thief, thief.bundle(thief.item())) == 1
    fresh = DeviceRig("dev-1")
    assert high(fresh, fresh.bundle(fresh.item())) == 0
    office.registry.revoke("bob", "dev-1", "stolen")
    office.service.enrol(Asker(name="dev-1").request(office.registry.invite("a").token))
    assert high(fresh, fresh.sync(1)) == 0, "only an operator clears it"
    office.registry.approve("bob", "dev-1")
    assert high(own, own.bundle(own.item())) == 3, "its own file goes on where it was"
    for _ in range(3):
        fresh = DeviceRig("dev-1")
        assert high(fresh, fresh.bundle(fresh.item())) == 1
    fresh = DeviceRig("dev-1")
    assert high(fresh, fresh.bundle(fresh.item())) == 0, "and the bound holds for the new key too"


def test_a_removed_device_is_gone_and_its_name_waits_for_approval(office: Office) -> None:
    office.service.enrol(Asker(name="dev-1").request(office.registry.invite("alice").token))
    office.registry.remove("bob", "dev-1")
    assert office.device("dev-1").state == "removed"
    assert office.good() == set()
    answer = office.service.enrol(Asker(name="dev-1").request(office.registry.invite("a").token))
    assert answer.state is EnrolmentState.PENDING
    assert office.device("dev-1").state == "pending"


def test_labels_are_set_and_taken_away(office: Office) -> None:
    office.service.enrol(Asker(name="dev-1").request(office.registry.invite("a", labels={"a": "1"}).token))
    assert office.registry.label("bob", "dev-1", {"b": "2", "a": None}) == {"b": "2"}
    assert office.device("dev-1").labels == {"b": "2"}
    for bad in ({"": "x"}, {"a b": "x"}, {"a": "\n"}, {"a": "x" * 65}, {f"k{n}": "x" for n in range(33)}):
        with pytest.raises(DeviceProblem):
            office.registry.label("bob", "dev-1", bad)


def test_acts_on_nothing_are_refused(office: Office) -> None:
    for act in (office.registry.revoke, office.registry.remove, office.registry.approve):
        with pytest.raises(DeviceProblem, match="there is no device dev-9") as caught:
            act("bob", "dev-9")
        assert caught.value.status == 404
    office.service.enrol(Asker(name="dev-1").request(office.registry.invite("a").token))
    with pytest.raises(DeviceProblem, match="no key of dev-1 waits for approval"):
        office.registry.approve("bob", "dev-1")


@pytest.mark.parametrize(
    "arguments",
    [
        {"device": "Not-Lower"},
        {"device": "dev-1", "serials": ["a"]},
        {"serials": []},
        {"serials": ["with blank"]},
        {"serials": ["x" * 65]},
        {"expires_s": 0},
        {"expires_s": 10**9},
        {"labels": {"a": "\x00"}},
    ],
)
def test_invitations_that_cannot_be_meant_are_refused(office: Office, arguments: dict[str, Any]) -> None:
    with pytest.raises(DeviceProblem) as caught:
        office.registry.invite("alice", **arguments)
    assert caught.value.status == 422
    assert office.acts == []


def test_no_secret_reaches_database_or_audit(office: Office) -> None:
    token = office.registry.invite("alice", serials=["A"]).token
    secret = EnrolmentToken.parse(token).secret
    office.service.enrol(Asker(serial="A").request(token))
    refusal(office, Asker(serial="B"), token)
    assert secret not in json.dumps(office.acts)
    assert token not in json.dumps(office.acts)
    from sqlalchemy import inspect, text

    with office.store.read() as session:
        for name in inspect(session.get_bind()).get_table_names():
            for row in session.execute(text(f"SELECT * FROM {name}")):
                assert secret not in repr(row)


def test_a_damaged_signing_request_is_refused_without_using_the_token(office: Office) -> None:
    token = office.registry.invite("alice").token
    assert refusal(office, Asker(name="dev-1"), token, csr="-----BEGIN X-----") is ProblemCode.REQUEST_INVALID
    assert office.service.enrol(Asker(name="dev-1").request(token)).state is EnrolmentState.ACTIVE


def test_one_token_used_by_eight_at_once_lets_one_in(office: Office) -> None:
    token = office.registry.invite("alice").token
    results: list[object] = []

    def use(number: int) -> None:
        try:
            results.append(office.service.enrol(Asker(name=f"dev-{number}").request(token)).state)
        except DeviceProblem as problem:
            results.append(problem.code)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, results)) == sorted(
        map(str, [EnrolmentState.ACTIVE, *[ProblemCode.TOKEN_USED] * 7])
    )
    assert len(office.good()) == 1


def test_eight_devices_that_wish_the_same_name_at_once_are_one_and_seven_that_wait(office: Office) -> None:
    tokens = [office.registry.invite("alice").token for _ in range(5)]
    states: list[EnrolmentState] = []
    threads = [
        threading.Thread(
            target=lambda token: states.append(
                office.service.enrol(Asker(name="dev-1").request(token)).state
            ),
            args=(token,),
        )
        for token in tokens
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(state.value for state in states) == ["active", *["pending"] * 4]
