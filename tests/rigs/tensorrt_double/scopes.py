"""What the walker of the syntax tree keeps: scopes, classes, and types that hold other types.

Types of the modules' own, beside those of a catalogue: ("pymodule", name), ("pyfunc", key), ("pyproperty", key),
("pyclass", key), ("pyobject", key), ("bound", key), ("list", types) for any container, ("tuple", (types, …)).
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.rigs.tensorrt_double.catalogue import NOTHING, Type, Types

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Key = tuple[str, str]
"""Module and qualified name."""

OWN: Final = frozenset(
    {"pymodule", "pyfunc", "pyproperty", "pyclass", "pyobject", "bound", "list", "tuple", "plain"}
)


@dataclass
class Scope:
    """A module, class or function."""

    key: Key
    parent: "Scope | None"
    node: Any
    names: dict[str, Types] = field(default_factory=dict)
    guards: list[tuple[str, str]] = field(default_factory=list)

    def find(self, name: str) -> Types:
        """What a name may be here."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names and not (isinstance(scope.node, ast.ClassDef) and scope is not self):
                return scope.names[name]
            scope = scope.parent
        return NOTHING


@dataclass
class PyClass:
    """A class of the modules."""

    key: Key
    scope: Scope
    node: ast.ClassDef
    bases: set[Type] = field(default_factory=set)
    attributes: dict[str, Types] = field(default_factory=lambda: defaultdict(lambda: NOTHING))

    @property
    def fields(self) -> list[str]:
        """Annotated names in order, as a dataclass takes them."""
        return [
            n.target.id
            for n in self.node.body
            if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
        ]


def merged(found: Types) -> Types:
    """One container for all of them, so that nothing grows for ever."""
    inner = [t[1] for t in found if t[0] == "list"]
    if len(inner) < 2:
        return found
    return frozenset(t for t in found if t[0] != "list") | {("list", merged(frozenset().union(*inner)))}


def container(values: Iterable[Types]) -> Types:
    inner: Types = frozenset().union(*values)
    return frozenset({("list", inner)}) if inner else NOTHING


def elements(found: Types) -> Types:
    result: Types = NOTHING
    for entry in found:
        if entry[0] == "list":
            result |= entry[1]
        elif entry[0] == "tuple":
            result |= frozenset().union(*entry[1])
    return result


def part(found: Types, place: int) -> Types:
    result: Types = NOTHING
    for entry in found:
        if entry[0] == "tuple" and -len(entry[1]) <= place < len(entry[1]):
            result |= entry[1][place]
        elif entry[0] == "list":
            result |= entry[1]
    return result


def guards_of(test: ast.expr, *, negated: bool = False) -> list[tuple[str, str]]:
    """What `hasattr` proves where the test holds, or where it does not."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return guards_of(test.operand, negated=not negated)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or if negated else ast.And):
        return [guard for part in test.values for guard in guards_of(part, negated=negated)]
    if negated or not (
        isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "hasattr"
    ):
        return []
    name = test.args[1]
    return [(ast.unparse(test.args[0]), str(name.value))] if isinstance(name, ast.Constant) else []


def leaves(body: Sequence[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)


def shown(owner: Type) -> str:
    return {"module": "the module ", "any": "no class of the library"}.get(owner[0], "") + ".".join(
        map(str, owner[1:])
    )
