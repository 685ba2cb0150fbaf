"""The enrolment token, which people copy, and the records of enrolment."""

import base64
import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from edge_runtime.protocol.enrolment import (
    BrokerAddress,
    EnrolmentRequest,
    EnrolmentResponse,
    EnrolmentToken,
    TokenError,
    renewal_message,
)

TOKEN = EnrolmentToken(id="0123456789abcdef", secret="S" * 43, authority="a1" * 32)
TEXT = (
    "efr1.eyJpIjoiMDEyMzQ1Njc4OWFiY2RlZiIsInMiOiJTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1N"
    "TIiwiYSI6ImExYTFhMWExYTFhMWExYTFhMWExYTFhMWExYTFhMWExYTFhMWExYTFhMWExYTFhMWExYTFhMWExYTFhMWExYTEifQ"
)


def test_its_text_never_changes() -> None:
    assert str(TOKEN) == TEXT
    assert EnrolmentToken.parse(TEXT) == TOKEN
    assert EnrolmentToken.parse(f"  {TEXT}\n") == TOKEN


@given(
    st.from_regex(r"[0-9a-f]{16}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9_-]{32,64}", fullmatch=True),
    st.from_regex(r"[0-9a-f]{64}", fullmatch=True),
)
def test_what_is_written_is_read(identity: str, secret: str, authority: str) -> None:
    token = EnrolmentToken(id=identity.strip(), secret=secret.strip(), authority=authority.strip())
    assert EnrolmentToken.parse(str(token)) == token


def test_it_does_not_show_its_secret() -> None:
    assert "SSS" not in repr(TOKEN)
    assert "SSS" not in f"{[TOKEN]}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "efr1.",
        "efr2." + TEXT[5:],
        TEXT[:-3],
        TEXT + "AAAA",
        TEXT[:20] + " " + TEXT[20:],
        TEXT.replace("e", "ä", 1),
        "efr1." + "A" * 5000,
        "efr1." + base64.urlsafe_b64encode(b"[1, 2]").decode(),
        "efr1." + base64.urlsafe_b64encode(json.dumps({"i": "x", "s": "y", "a": "z"}).encode()).decode(),
        "efr1." + base64.urlsafe_b64encode(b"[" * 300).decode(),
        "efr1." + base64.urlsafe_b64encode(b"\xff\xfe").decode(),
    ],
)
def test_a_damaged_token_is_one_sentence_without_the_token(text: str) -> None:
    with pytest.raises(TokenError) as error:
        EnrolmentToken.parse(text)
    assert "\n" not in str(error.value)
    assert text[5:] == "" or text[5:] not in str(error.value)


@given(st.text(max_size=600))
def test_any_text_is_a_token_or_a_token_error(text: str) -> None:
    for candidate in (text, f"efr1.{text}"):
        with contextlib.suppress(TokenError):
            assert str(EnrolmentToken.parse(candidate)).startswith("efr1.")


def test_a_request_holds_what_its_patterns_say() -> None:
    request = EnrolmentRequest(
        token_id="0" * 16, secret="s" * 43, csr="-----BEGIN", serial="SN-1", device="dock"
    )
    assert EnrolmentRequest.model_validate_json(request.model_dump_json()) == request
    for change in (
        {"serial": "a b"},
        {"serial": ""},
        {"device": "Dock"},
        {"csr": "x" * 20_000},
        {"secret": "s"},
    ):
        with pytest.raises(ValidationError):
            EnrolmentRequest.model_validate({**request.model_dump(), **change})


def test_an_answer_of_a_newer_server_is_read() -> None:
    answer = {
        "device": "dock",
        "state": "pending",
        "authority": "pem",
        "broker": {"host": "fleet", "port": 8883, "newer": 1},
        "renew_after_s": 60,
        "newer": True,
    }
    read = EnrolmentResponse.model_validate_json(json.dumps(answer))
    assert read.certificate is None
    assert read.broker == BrokerAddress(host="fleet", port=8883)


def test_what_a_renewal_signs_binds_the_nonce_and_the_request() -> None:
    assert renewal_message("n", "csr") == b"edge-fleet renewal v1\nn\ncsr"
    assert renewal_message("n", "csr") != renewal_message("nc", "sr")
