"""Renewal: before the end, and after it within the grace; never for what was put out, once on a challenge."""

import string
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.protocol.enrolment import EnrolmentResponse
from fleet_server.authority import CertificateAuthority
from fleet_server.devices import DeviceProblem, ProblemCode
from fleet_server.devices.nonces import LIFETIME_S, NonceMaker
from fleet_server.devices.renewal import MAX_RENEWALS_A_DAY
from fleet_server.storage import Store
from tests.rigs.enrolments import Asker, Office, serial_of


@pytest.fixture
def office(store: Store, tmp_path: Path) -> Office:
    return Office(store, tmp_path)


@pytest.fixture
def asker() -> Asker:
    return Asker(name="dev-1")


@pytest.fixture
def first(office: Office, asker: Asker) -> str:
    return pem_of(office.service.enrol(asker.request(office.registry.invite("alice").token)))


def pem_of(answer: EnrolmentResponse) -> str:
    assert answer.certificate is not None
    return answer.certificate


def renew(office: Office, asker: Asker, pem: str, new: Asker | None = None, **changed: Any) -> str:
    nonce = office.service.challenge().nonce
    return pem_of(office.service.renew(asker.renewal(pem, nonce, new, **changed)))


def refusal(office: Office, asker: Asker, pem: str, new: Asker | None = None, **changed: Any) -> ProblemCode:
    before = (office.good(), office.out(), office.generation(), len(office.acts))
    with pytest.raises(DeviceProblem) as caught:
        renew(office, asker, pem, new, **changed)
    assert (office.good(), office.out(), office.generation(), len(office.acts)) == before
    return caught.value.code


def test_the_old_certificate_stays_good_until_the_new_one_is_used(
    office: Office, asker: Asker, first: str
) -> None:
    office.clock.pass_days(20)
    next_key = Asker()
    renew(office, asker, first, next_key)  # its answer is lost: nobody has this one
    second = renew(office, asker, first, next_key)
    assert office.good() == {("dev-1", serial_of(first)), ("dev-1", serial_of(second))}
    third = renew(office, next_key, second)
    assert office.good() == {("dev-1", serial_of(second)), ("dev-1", serial_of(third))}
    assert serial_of(first) in office.out()
    assert refusal(office, asker, first) is ProblemCode.CERTIFICATE_SUPERSEDED
    assert office.acts[-1][:3] == ("device:dev-1", "certificate.renewed", "dev-1")
    assert office.service.counts()["renewed"] == 3


def test_one_that_ran_out_while_offline_may_renew_for_ninety_days(
    office: Office, asker: Asker, first: str
) -> None:
    office.clock.pass_days(30 + 89.9)
    assert office.good() == set()
    second = renew(office, asker, first)
    assert office.good() == {("dev-1", serial_of(second))}


def test_later_it_must_enrol_again(office: Office, asker: Asker, first: str) -> None:
    office.clock.pass_days(30 + 90.1)
    assert refusal(office, asker, first) is ProblemCode.RENEWAL_TOO_LATE


@pytest.mark.parametrize("act", ["revoke", "remove"])
def test_what_was_put_out_never_renews(office: Office, asker: Asker, first: str, act: str) -> None:
    getattr(office.registry, act)("bob", "dev-1")
    assert refusal(office, asker, first) is ProblemCode.CERTIFICATE_REVOKED
    office.clock.pass_days(40)
    assert refusal(office, asker, first) is ProblemCode.CERTIFICATE_REVOKED


def test_the_certificate_alone_is_not_enough(office: Office, asker: Asker, first: str) -> None:
    thief = Asker()
    assert refusal(office, thief, first) is ProblemCode.SIGNATURE_REFUSED
    assert refusal(office, asker, first, signature="AAAA") is ProblemCode.SIGNATURE_REFUSED
    assert refusal(office, asker, first, signature="not base64!") is ProblemCode.SIGNATURE_REFUSED
    # somebody between puts a key of theirs into a renewal that the device signed
    assert refusal(office, asker, first, csr=thief.csr()) is ProblemCode.SIGNATURE_REFUSED


def test_another_authoritys_certificate_is_refused(
    office: Office, asker: Asker, first: str, tmp_path: Path
) -> None:
    rogue = CertificateAuthority.create(tmp_path / "rogue.key", tmp_path / "rogue.pem", office.clock)
    forged = rogue.sign_client("dev-1", asker.key.public_key(), serial=serial_of(first), lifetime_s=1000)
    assert refusal(office, asker, forged.pem) is ProblemCode.CERTIFICATE_REFUSED
    assert refusal(office, asker, "-----BEGIN CERTIFICATE-----") is ProblemCode.CERTIFICATE_REFUSED
    unlisted = office.authority.sign_client("dev-1", asker.key.public_key(), serial="abc", lifetime_s=1000)
    assert refusal(office, asker, unlisted.pem) is ProblemCode.CERTIFICATE_REFUSED


def test_a_challenge_is_good_once_and_for_two_minutes(office: Office, asker: Asker, first: str) -> None:
    nonce = office.service.challenge().nonce
    request = asker.renewal(first, nonce)
    office.service.renew(request)
    with pytest.raises(DeviceProblem, match="answered already"):
        office.service.renew(request)
    old = office.service.challenge().nonce
    office.clock.pass_s(LIFETIME_S + 1)
    with pytest.raises(DeviceProblem, match="ended or is not ours"):
        office.service.renew(asker.renewal(first, old))
    stranger = NonceMaker(b"x" * 32).make(office.now_ms())
    with pytest.raises(DeviceProblem, match="ended or is not ours"):
        office.service.renew(asker.renewal(first, stranger))
    with pytest.raises(DeviceProblem, match="ended or is not ours"):
        office.service.renew(asker.renewal(first, "A" * 45))


def test_a_key_of_another_device_cannot_be_taken_over(office: Office, asker: Asker, first: str) -> None:
    other = Asker(name="dev-2")
    office.service.enrol(other.request(office.registry.invite("alice").token))
    assert refusal(office, asker, first, other) is ProblemCode.KEY_REFUSED


def test_renewals_of_one_device_are_bounded(office: Office, asker: Asker, first: str) -> None:
    pem = first
    for _ in range(MAX_RENEWALS_A_DAY - 1):
        pem = renew(office, asker, pem)
    assert refusal(office, asker, pem) is ProblemCode.RENEWAL_TOO_OFTEN
    office.clock.pass_days(1.1)
    renew(office, asker, pem)


def test_nonces_need_no_memory_and_cannot_be_made_by_others() -> None:
    maker = NonceMaker(b"s" * 32)
    nonce = maker.make(1_000_000)
    assert maker.expires_ms(nonce, 1_000_000) == 1_000_000 + LIFETIME_S * 1000
    assert NonceMaker(b"s" * 32).expires_ms(nonce, 1_000_000) is not None
    for place in range(len(nonce)):
        changed = nonce[:place] + ("A" if nonce[place] != "A" else "B") + nonce[place + 1 :]
        assert maker.expires_ms(changed, 1_000_000) is None
    # base64 has several texts for the same bytes: the last sign has bits that mean nothing
    others = {nonce[:-1] + sign for sign in string.ascii_letters + string.digits + "-_"} - {nonce}
    for text in (*others, nonce + "==", nonce.replace("-", "+").replace("_", "/") + "=="):
        assert maker.expires_ms(text, 1_000_000) is None
    for text in ("", "*", "A", "A" * 64):
        assert maker.expires_ms(text, 0) is None
