"""Which methods of the outbox can be called over its socket, and how their arguments and answers are checked."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from edge_runtime.outbox.outbox import Outbox
from edge_runtime.outbox.packing import (
    CallError,
    pack_items,
    pack_results,
    pack_submissions,
    unpack_items,
    unpack_results,
    unpack_submissions,
)
from edge_runtime.outbox.records import PutResult, QueuedItem, Submission
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


@dataclass(frozen=True, slots=True)
class Passage:
    """How one type crosses the socket.

    Attributes:
        pack: makes plain data of a value.
        unpack: makes a value of plain data, or raises ValidationError or CallError.
    """

    pack: Callable[[Any], Any]
    unpack: Callable[[Any], Any]


_OFTEN: dict[Any, Passage] = {
    Sequence[Submission]: Passage(pack_submissions, unpack_submissions),
    Submission: Passage(lambda one: pack_submissions([one])[0], lambda row: unpack_submissions([row])[0]),
    list[PutResult]: Passage(pack_results, unpack_results),
    list[QueuedItem]: Passage(pack_items, unpack_items),
}
"""What every event passes through, by hand: pydantic and names for each field took half the time of a call."""


def _passage(hint: Any) -> Passage:
    if hint in _OFTEN:
        return _OFTEN[hint]
    adapter: TypeAdapter[Any] = TypeAdapter(hint)
    return Passage(adapter.dump_python, adapter.validate_python)


@dataclass(frozen=True, slots=True)
class Signature:
    """One method as it crosses the socket.

    Attributes:
        arguments: by name, what checks them.
        required: those without a default.
        answer: what checks the answer.
    """

    arguments: dict[str, Passage]
    required: frozenset[str]
    answer: Passage

    def check(self, given: object) -> dict[str, Any]:
        """Arguments as the method wants them.

        Raises:
            CallError: an unknown, missing or wrong argument; the text holds no content.
        """
        if not isinstance(given, dict) or not self.required <= set(given) <= set(self.arguments):
            raise CallError("not the arguments of this method")
        try:
            return {name: self.arguments[name].unpack(value) for name, value in given.items()}
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
        arguments={name: _passage(hints[name]) for name in parameters},
        required=frozenset(name for name, found in parameters.items() if found.default is found.empty),
        answer=_passage(hints["return"]),
    )
