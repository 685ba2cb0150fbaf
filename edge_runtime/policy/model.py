"""A policy file's content: recipients, positive permits, what stays on the device, and who may review from afar.

There is no way to write a prohibition. Engines that have one skip it when one of its inputs is missing, and then
allow (cedar-policy/cedar #2428): here only what a permit names may leave, and everything else is held.
"""

import hashlib
import json
import re
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    ValidationInfo,
    model_validator,
)

from edge_runtime.policy.checks import policy_problems
from edge_runtime.protocol.vocabulary import DataClass, EvidenceMode, Severity

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_PERMIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def _name(value: str) -> str:
    if _NAME.fullmatch(value) is None:
        raise ValueError("must be 1 to 64 of a-z, 0-9, _, . and -, beginning with a letter or a digit")
    return value


def _permit_name(value: str) -> str:
    if _PERMIT.fullmatch(value) is None:
        raise ValueError("must be 1 to 64 letters, digits, _, . and -, beginning with a letter or a digit")
    return value


def _pattern(value: str) -> str:
    if not 1 <= len(value) <= 128 or not value.isprintable():
        raise ValueError("must be 1 to 128 printable characters; * stands for any run of characters")
    return value


def _known_class(value: DataClass) -> DataClass:
    if value is DataClass.UNKNOWN:
        raise ValueError("cannot be unknown: what has no class is held, whatever a policy says")
    return value


def _whole(value: Any) -> Any:
    # pydantic's strict integer takes no text and no fraction, but says so in words of programmers
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("must be a whole number")
    return value


Name = Annotated[str, AfterValidator(_name)]
PermitName = Annotated[str, AfterValidator(_permit_name)]
Pattern = Annotated[str, AfterValidator(_pattern)]
KnownClass = Annotated[DataClass, AfterValidator(_known_class)]
Whole = Annotated[StrictInt, BeforeValidator(_whole)]

Classes = Annotated[tuple[KnownClass, ...], Field(max_length=8)]
Patterns = Annotated[tuple[Pattern, ...], Field(max_length=64)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Recipient(_Section):
    """Somebody who may be sent events.

    Attributes:
        place: where they are: `organisation` (the fleet server and who works at it), `personal` or `cloud`.
        accepts: data classes that may be sent to them; never `unknown`.
        purposes: what they may use it for.
    """

    place: Literal["organisation", "personal", "cloud"]
    accepts: Classes
    purposes: Annotated[tuple[Name, ...], Field(min_length=1, max_length=16)]


class Condition(_Section):
    """Which events are meant. An empty list does not restrict; `*` in a pattern stands for any run of characters.

    Attributes:
        classes: data classes.
        cameras: patterns of camera names.
        rules: patterns of rule names.
        kinds: patterns of event kinds, such as `zone_enter`.
        labels: patterns of labels, such as `person`.
        severity_at_least: the least severe that is meant.
    """

    classes: Classes = ()
    cameras: Patterns = ()
    rules: Patterns = ()
    kinds: Patterns = ()
    labels: Patterns = ()
    severity_at_least: Severity | None = None

    @property
    def restricts(self) -> bool:
        """Whether it leaves any event out."""
        lists = (self.classes, self.cameras, self.rules, self.kinds, self.labels)
        return any(lists) or self.severity_at_least is not None


class KeepRule(Condition):
    """Events that stay on the device and need nobody. At least one condition."""

    @model_validator(mode="after")
    def _means_something(self) -> "KeepRule":
        if not self.restricts:
            raise ValueError("needs at least one condition: without any it would keep every event, unseen")
        return self


class Budget(_Section):
    """How much one permit lets go for one rule of one camera within an hour.

    Attributes:
        events_per_hour: revisions of events; beyond it they are held.
        evidence_bytes_per_hour: evidence; beyond it events go without.
    """

    events_per_hour: Annotated[Whole, Field(ge=0, le=1_000_000)] = 360
    evidence_bytes_per_hour: Annotated[Whole, Field(ge=0, le=1 << 40)] = 20_000_000


class Permit(_Section):
    """Lets the events that it names go to recipients, for one purpose.

    Attributes:
        name: receipts carry it.
        when: which events.
        to: names of recipients; who refuses the class or the purpose drops out, and with nobody left it is held.
        purpose: what the recipients may use it for.
        evidence: how much of the crop beside an event may leave.
        budget: caps; without one the defaults hold.
        coalesce: seconds in which further happenings of the same rule and camera stay on the device, counted.
    """

    name: PermitName
    when: Condition = Condition()
    to: Annotated[tuple[Name, ...], Field(min_length=1, max_length=16)]
    purpose: Name
    evidence: EvidenceMode = EvidenceMode.NONE
    budget: Budget = Budget()
    coalesce: Annotated[Whole, Field(ge=0, le=86_400)] = 0


class RemoteReview(_Section):
    """What the operator of the fleet may review from afar.

    Attributes:
        classes: held items of these classes are listed to them and may be released or dropped by them.
        evidence: the most of the crop that such a release lets go.
    """

    classes: Classes = ()
    evidence: Literal["none", "redacted"] = "none"


class Policy(_Section):
    """One policy file.

    Attributes:
        version: of this format.
        name: of the policy; the digest, not the name, identifies it.
        recipients: who may be sent anything, by name.
        permits: what may leave; the first that lets an event go decides to whom and with what.
        keep: what stays on the device and needs nobody.
        remote_review: which held items may be reviewed from the fleet server; without it none.
    """

    version: Literal[1] = 1
    name: PermitName
    recipients: Annotated[dict[Name, Recipient], Field(max_length=64)] = {}
    permits: Annotated[tuple[Permit, ...], Field(max_length=256)] = ()
    keep: Annotated[tuple[KeepRule, ...], Field(max_length=256)] = ()
    remote_review: RemoteReview = RemoteReview()

    @cached_property
    def digest(self) -> str:
        """`sha256:` of the canonical form: the same for any layout, comment, and defaults written out or not."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()

    @model_validator(mode="after")
    def _fits_together(self, info: ValidationInfo) -> "Policy":
        if (info.context or {}).get("checked"):
            return self  # whoever read the file runs these checks on its own data, and knows the lines
        found = [text for _, text in policy_problems(self.model_dump(mode="json"))]
        if found:
            raise ValueError("; ".join(found))
        return self
