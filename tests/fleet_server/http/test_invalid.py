"""What is wrong with a request, in a sentence and without its values."""

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from fleet_server.http.invalid import sentence_of
from fleet_server.http.requests import InvitationRequest, LabelsRequest, ReasonRequest, TokenRequest


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (TokenRequest, {}, "the field name is missing; the field role is missing"),
        (
            TokenRequest,
            {"name": "a", "role": "king"},
            "the field role must be viewer, operator, approver or admin",
        ),
        (
            TokenRequest,
            {"name": ";", "role": "viewer"},
            "the field name is of another form, or has characters",
        ),
        (ReasonRequest, {"reason": ""}, "the field reason must have at least 1 characters"),
        (ReasonRequest, {"reason": "x", "more": 1}, "the field more is not known here"),
        (ReasonRequest, [], "the body of the request must be a table"),
        (InvitationRequest, {"expires_s": 1}, "the field expires_s must be at least 60"),
        (InvitationRequest, {"expires_s": "soon"}, "the field expires_s must be a whole number"),
        (InvitationRequest, {"serials": []}, "the field serials must have at least 1 entries"),
        (LabelsRequest, {"labels": {"a b": "c"}}, "the field labels.a b is of another form"),
    ],
)
def test_requests_of_this_api(kind: type[BaseModel], value: Any, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        kind.model_validate(value)
    errors = [{**error, "loc": ("body", *error["loc"])} for error in caught.value.errors()]
    assert sentence_of(errors).startswith(said)


def test_many_findings_are_cut_and_counted() -> None:
    class Wide(BaseModel):
        model_config = ConfigDict(extra="forbid")

    with pytest.raises(ValidationError) as caught:
        Wide.model_validate({f"f{number}": 1 for number in range(9)})
    found = sentence_of([{**error, "loc": ("query", *error["loc"])} for error in caught.value.errors()])
    assert found.startswith("the parameter f0 is not known here; ")
    assert found.endswith("; and 4 more")


def test_what_no_table_knows_is_still_a_sentence() -> None:
    assert sentence_of([{"type": "new_kind", "loc": ("query", "a"), "msg": "Value error, Odd   thing"}]) == (
        "the parameter a cannot be used: odd thing"
    )
    assert sentence_of([{"type": "less_than", "loc": ("path", "a"), "msg": "Odd"}]) == (
        "the address: a cannot be used: odd"
    )
    assert sentence_of([{"type": "json_invalid", "loc": ("body", 3), "msg": "x"}]) == (
        "the body of the request is not JSON"
    )
    assert sentence_of([]) == "the request is of the wrong shape"
