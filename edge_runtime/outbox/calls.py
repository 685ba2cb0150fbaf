"""Which methods of the outbox can be called over its socket, and how their arguments and answers are checked."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from edge_runtime.outbox.outbox import Outbox
from edge_runtime.protocol.wire import places

METHODS = (
    "put",
    "count_not_accepted",
    "lease",
    "unlease",
    "wait",
    "settle",
    "sync_point",
    "outcomes",
    "next_session",
    "evidence_due",
    "evidence_done",
    "evidence_failed",
    "held",
    "held_item",
    "release",
    "drop",
    "decisions",
    "dead_letters",
    "queued",
    "bodies",
    "status",
)

OWNED = {"lease", "unlease"}
"""Methods whose `owner` is the connection, never something that the other side says."""


class CallError(ValueError):
    """A call that cannot be made: no such method, or arguments that are not its own."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One method as it crosses the socket.

    Attributes:
        arguments: by name, what checks them.
        required: those without a default.
        answer: what checks the answer.
    """

    arguments: dict[str, TypeAdapter[Any]]
    required: frozenset[str]
    answer: TypeAdapter[Any]

    def check(self, given: object) -> dict[str, Any]:
        """Arguments as the method wants them.

        Raises:
            CallError: an unknown, missing or wrong argument; the text holds no content.
        """
        if not isinstance(given, dict) or not self.required <= set(given) <= set(self.arguments):
            raise CallError("not the arguments of this method")
        try:
            return {name: self.arguments[name].validate_python(value) for name, value in given.items()}
        except ValidationError as error:
            raise CallError(f"wrong arguments: {places(error)}") from None


@lru_cache(maxsize=len(METHODS))
def signature(method: str) -> Signature:
    """How a method crosses the socket.

    Raises:
        CallError: there is no such method.
    """
    if method not in METHODS:
        raise CallError("no such method")
    function: Callable[..., Any] = getattr(Outbox, method)
    hints = get_type_hints(function)
    parameters = {
        name: found
        for name, found in inspect.signature(function).parameters.items()
        if name not in ("self", "owner")
    }
    return Signature(
        arguments={name: TypeAdapter(hints[name]) for name in parameters},
        required=frozenset(name for name, found in parameters.items() if found.default is found.empty),
        answer=TypeAdapter(hints["return"]),
    )
