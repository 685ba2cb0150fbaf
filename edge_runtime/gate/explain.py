"""What the gate would do with one event, in a file or a line, and why."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from edge_runtime.config.problem import InvalidConfig
from edge_runtime.config.regular_file import NotRegularError, open_regular
from edge_runtime.errors import ConfigError
from edge_runtime.gate.policy_file import InForce, read_policy
from edge_runtime.policy import Decision, DecisionRequest, Usage, decide, sentence
from edge_runtime.protocol import DataClass, EventRecord, Reason
from edge_runtime.protocol.wire import places

MAX_EVENT_FILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision and everything that led to it.

    Attributes:
        decision: as the gate would make it now, with no budget spent yet.
        in_force: what it went by.
    """

    decision: Decision
    in_force: InForce

    def as_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        decision = self.decision
        return {
            "decision": decision.kind.value,
            "reasons": [reason.value for reason in decision.reasons],
            "policy": decision.policy,
            "permit": decision.permit,
            "recipients": list(decision.recipients),
            "purpose": decision.purpose,
            "evidence": decision.evidence.value,
            "data_class": decision.data_class.value,
            "sentences": [sentence(reason) for reason in decision.reasons],
            "considered": [
                {"permit": item.permit, "reasons": [reason.value for reason in item.reasons]}
                for item in decision.considered
            ],
            "policy_problems": list(self.in_force.trouble),
        }


def policy_for(path: Path) -> InForce:
    """What the gate would go by with this policy file."""
    try:
        return InForce(read_policy(path))
    except InvalidConfig as error:
        if not path.exists():
            return InForce(None, Reason.NO_POLICY)
        return InForce(None, Reason.POLICY_UNREADABLE, tuple(error.lines()))


def explain(event: EventRecord, in_force: InForce) -> Explanation:
    """What the gate would do with `event`, were it the first of its rule."""
    policy = in_force.policy
    usage = {} if policy is None else {permit.name: Usage() for permit in policy.permits}
    return Explanation(
        decide(DecisionRequest.of(event, usage), policy, without_policy=in_force.without), in_force
    )


def read_event(path: Path) -> EventRecord:
    """One event from a file: a line of an event log, or a record laid out over several lines.

    An event without a class, or with one that is none, is an event of unknown class.

    Raises:
        ConfigError: the file cannot be read, or is no event; one sentence.
    """
    return parse_event(_read(path), str(path))


def parse_event(raw: bytes, source: str) -> EventRecord:
    """One event from its JSON.

    Args:
        raw: the JSON.
        source: named in errors.

    Raises:
        ConfigError: it is no event; one sentence.
    """
    try:
        found = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        if sum(1 for line in raw.splitlines() if line.strip()) > 1 and raw.lstrip()[:1] == b"{":
            text = "is not one JSON object; where it holds a log, take one line of it"
            raise ConfigError(f"{source}: {text}") from None
        raise ConfigError(f"{source}: is not JSON; give one line of an event log") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{source}: is no event: an event is a JSON object") from None
    if found.get("data_class") not in [item.value for item in DataClass]:
        found["data_class"] = DataClass.UNKNOWN.value
    try:
        return EventRecord.model_validate_json(json.dumps(found))
    except (ValidationError, ValueError) as error:
        said = places(error) if isinstance(error, ValidationError) else "it holds what JSON cannot"
        raise ConfigError(f"{source}: is no event: {said}") from None


def _read(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            raw = file.read(MAX_EVENT_FILE_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder; name a file with one event") from None
    except NotRegularError as error:
        raise ConfigError(f"{path}: is {error.kind}; name a file with one event") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(raw) > MAX_EVENT_FILE_BYTES:
        raise ConfigError(f"{path}: is larger than {MAX_EVENT_FILE_BYTES // 1024} KiB; take one line of it")
    return raw
