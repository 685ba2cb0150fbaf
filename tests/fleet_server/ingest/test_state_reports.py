"""Sealed state reports: only what the device's own key signed about itself is taken; the rest is kept."""

import json
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from securesystemslib.signer import CryptoSigner
from sqlalchemy import select, update

from edge_runtime.protocol.envelope import seal
from edge_runtime.protocol.update import ASSIGNMENT_TYPE, StateReport
from fleet_server.ingest import Arrival, Now, Rules, inspect
from fleet_server.ingest.parcels import DeadParcel, StateParcel
from fleet_server.ingest.state_reports import KEPT_MS, Verified, device_keys, verify
from fleet_server.storage import Store
from fleet_server.storage.device_tables import CertificateRow, DeviceRow
from fleet_server.storage.event_tables import DeadLetterRow
from tests.fleet_server.ingest.conftest import Server
from tests.rigs.enrolments import Asker, Office
from tests.rigs.state_reports import message, sealed, state_report, terminal_report

NOW_MS = 1_790_000_100_000


class Books:
    """Devices with certificates in a server's database."""

    def __init__(self, office: Office) -> None:
        self.office = office

    def enrol(self, device: str) -> EllipticCurvePrivateKey:
        """A new device; its key."""
        asker = Asker(device)
        token = self.office.registry.invite("ann", device=device).token
        self.office.service.enrol(asker.request(str(token)))
        return asker.key

    def renew(self, device: str, key: EllipticCurvePrivateKey) -> EllipticCurvePrivateKey:
        """A renewal with a new key, and a second one with the same so that the first certificate is superseded."""
        old, new = Asker(device, key=key), Asker(device)
        for who, to in ((old, new), (new, new)):
            with self.office.store.read() as session:
                query = (
                    select(CertificateRow.pem)
                    .where(CertificateRow.device == device, CertificateRow.state == "active")
                    .order_by(CertificateRow.id.desc())
                )
                pem = session.scalars(query).first()
            assert pem is not None
            nonce = self.office.service.challenge().nonce
            self.office.service.renew(who.renewal(pem, nonce, to))
        return new.key

    def verify(self, device: str, *reports: bytes) -> Verified:
        now_ms = self.office.now_ms()
        with self.office.store.read() as session:
            keys = device_keys(session.connection(), [device, "nobody"], now_ms)
        return verify(StateParcel(device, reports), keys.get(device, ()))


def _codes(found: Verified) -> list[str]:
    return [letter.code for letter in found.refused]


def _books(store: Store, tmp_path: Path) -> Books:
    return Books(Office(store, tmp_path))


def test_what_the_device_signed_about_itself_is_taken(store: Store, tmp_path: Path) -> None:
    books = _books(store, tmp_path)
    key = books.enrol("dev-1")
    first, second = state_report(number=1), terminal_report(number=2)
    found = books.verify("dev-1", sealed(first, key), sealed(second, key))
    assert found == Verified((first, second), ())


def test_each_report_is_judged_on_its_own(store: Store, tmp_path: Path) -> None:
    books = _books(store, tmp_path)
    key, other = books.enrol("dev-1"), books.enrol("dev-2")
    good = state_report(number=3)
    envelopes = [json.loads(sealed(report, key)) for report in (good, state_report(number=4))]
    altered = json.dumps({**envelopes[0], "payload": envelopes[1]["payload"]}).encode()
    found = books.verify(
        "dev-1",
        sealed(good, other),
        altered,
        b"no envelope",
        seal(good, ASSIGNMENT_TYPE, CryptoSigner(key)),
        sealed(state_report("dev-2"), key),
        sealed(state_report(text="a\0b"), key),
        sealed(good, key),
    )
    assert found.reports == (good,)
    assert _codes(found) == [
        "wrong_signer",
        "wrong_signer",
        "malformed",
        "invalid",
        "wrong_device",
        "invalid",
    ]
    assert all(letter.device == "dev-1" and letter.channel == "up/state" for letter in found.refused)


def test_reports_that_waited_over_a_renewal_are_still_the_devices_own(store: Store, tmp_path: Path) -> None:
    books = _books(store, tmp_path)
    old = books.enrol("dev-1")
    waited = sealed(terminal_report(), old)
    new = books.renew("dev-1", old)
    assert books.office.certificates("dev-1")[0] == "superseded"
    assert len(books.verify("dev-1", waited, sealed(state_report(), new)).reports) == 2
    books.office.clock.pass_s(KEPT_MS / 1000 + 60)
    assert _codes(books.verify("dev-1", waited)) == ["wrong_signer"]


def test_a_revoked_key_has_signed_nothing(store: Store, tmp_path: Path) -> None:
    books = _books(store, tmp_path)
    key = books.enrol("dev-1")
    books.office.registry.revoke("ann", "dev-1")
    assert _codes(books.verify("dev-1", sealed(state_report(), key))) == ["wrong_signer"]


def test_a_key_that_waits_for_an_operator_has_signed_nothing(store: Store, tmp_path: Path) -> None:
    books = _books(store, tmp_path)
    books.enrol("dev-1")
    impostor = Asker("dev-1")
    token = books.office.registry.invite("ann", device="dev-1").token
    books.office.service.enrol(impostor.request(str(token)))
    assert "pending" in books.office.certificates("dev-1")
    assert _codes(books.verify("dev-1", sealed(state_report(), impostor.key))) == ["wrong_signer"]


def test_a_certificate_that_cannot_be_read_is_no_key(store: Store, tmp_path: Path) -> None:
    books = _books(store, tmp_path)
    key = books.enrol("dev-1")
    with store.write() as session:
        session.execute(update(CertificateRow).values(pem="-----BEGIN CERTIFICATE-----\nAAAA\n"))
    assert _codes(books.verify("dev-1", sealed(state_report(), key))) == ["wrong_signer"]


def test_a_message_names_its_device_and_is_never_retained() -> None:
    topic, payload = message("dev-1", b"{}")
    now = Now(0, NOW_MS)
    assert inspect(Arrival(topic, payload, 0), Rules(), now) == StateParcel("dev-1", (b"{}",))
    retained = inspect(Arrival(topic, payload, 0, retained=True), Rules(), now)
    others = inspect(Arrival(topic.replace("dev-1", "dev-2"), payload, 0), Rules(), now)
    empty = inspect(Arrival(topic, b"", 0), Rules(), now)
    found = [parcel.code for parcel in (retained, others, empty) if isinstance(parcel, DeadParcel)]
    assert found == ["invalid", "wrong_device", "malformed"]


def test_what_is_refused_is_kept_for_people_and_counted(server: Server, tmp_path: Path) -> None:
    books = _books(server.store, tmp_path)
    key, other = books.enrol("dev-1"), books.enrol("dev-2")
    done = server.take(
        message("dev-1", sealed(state_report(), other)), message("dev-1", sealed(state_report("dev-2"), key))
    )
    assert done.counts == {
        ("message", "state"): 2,
        ("dead_letter", "wrong_signer"): 1,
        ("dead_letter", "wrong_device"): 1,
    }
    with server.store.read() as session:
        letters = list(session.scalars(select(DeadLetterRow).order_by(DeadLetterRow.id)))
    assert [(letter.device, letter.channel) for letter in letters] == [("dev-1", "up/state")] * 2
    assert StateReport.__name__ not in letters[0].text  # places and reasons, no content
    assert server.count(DeviceRow) == 2
