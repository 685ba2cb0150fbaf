"""Calls: does one of the library fit, and what goes into functions and classes of the modules themselves."""

import ast
from collections.abc import Mapping, Sequence

from tests.rigs.tensorrt_double.catalogue import NOTHING, Type, Types
from tests.rigs.tensorrt_double.scopes import OWN, FunctionNode, Key, Scope, container, elements, shown
from tests.rigs.tensorrt_double.values import Values

ITERATORS = frozenset({"iter", "reversed", "sorted", "list", "tuple", "set", "enumerate", "zip", "next"})


class Calls(Values):
    """Calls of some modules; see `Values`."""

    def _call(self, node: ast.Call, scope: Scope) -> Types:
        if isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr") and len(node.args) >= 2:
            return self._probe(node, scope)
        called = self.value(node.func, scope)
        values = [self.value(argument, scope) for argument in node.args]
        keywords = {k.arg: self.value(k.value, scope) for k in node.keywords}
        if isinstance(node.func, ast.Name) and node.func.id in ITERATORS and not called:
            return container(elements(v) for v in values) if node.func.id != "next" else elements(values[0])
        if (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in ("append", "add", "appendleft")
            and values
        ):
            self._bind(node.func.value, container(values[:1]), scope)
        if isinstance(node.func, ast.Attribute) and node.func.attr in (
            "values",
            "items",
            "get",
            "pop",
            "popleft",
            "popitem",
        ):
            owners = self.value(node.func.value, scope)
            inside = frozenset(t for t in owners if t[0] == "list")
            if inside and node.func.attr in ("get", "pop", "popleft"):
                return elements(inside)
            if inside and node.func.attr in ("items", "popitem"):
                pair = ("tuple", (NOTHING, elements(inside)))
                return (
                    frozenset({("list", frozenset({pair}))})
                    if node.func.attr == "items"
                    else frozenset({pair})
                )
            if inside:
                return inside
        found: Types = NOTHING
        for target in called:
            found |= self._called(target, node, values, keywords, scope)
        return found

    def _probe(self, node: ast.Call, scope: Scope) -> Types:
        owners, name = self.value(node.args[0], scope), node.args[1]
        library = frozenset(t for t in owners if t[0] not in OWN)
        if not isinstance(name, ast.Constant):
            if library and isinstance(node.func, ast.Name) and node.func.id == "getattr":
                self._tell(
                    scope,
                    node,
                    f"{shown(next(iter(library)))}: the name of an attribute must be written out",
                )
            return NOTHING
        if isinstance(node.func, ast.Name) and node.func.id == "hasattr":
            return NOTHING
        if len(node.args) > 2 and all(self._catalogue.attribute(t, str(name.value)) is None for t in library):
            return self.value(node.args[2], scope)
        return self._attribute(owners, str(name.value), node, scope, ast.unparse(node.args[0]))

    def _called(
        self,
        target: Type,
        node: ast.Call,
        values: list[Types],
        keywords: dict[str | None, Types],
        scope: Scope,
    ) -> Types:
        if target[0] in ("pyfunc", "bound"):
            forwarded = self._forwarded(target[1], node, values, scope)
            self._pass(target[1], values, keywords, skip=target[0] == "bound")
            return self._returned[target[1]] if forwarded is None else forwarded
        if target[0] == "pyclass":
            return self._make(target[1], values, keywords)
        if target[0] in ("module", "object") or (target[0] in OWN and target[0] != "plain"):
            return NOTHING
        return self._checked(target, node, node.args, node.keywords, scope)

    def _checked(
        self,
        target: Type,
        node: ast.Call,
        arguments: Sequence[ast.expr],
        keywords: Sequence[ast.keyword],
        scope: Scope,
    ) -> Types:
        if any(isinstance(a, ast.Starred) for a in arguments) or any(k.arg is None for k in keywords):
            return self._catalogue.returns(target)
        names = tuple(str(k.arg) for k in keywords)
        reason, found = self._catalogue.call(target, len(arguments), names)
        if reason:
            self._tell(scope, node, f"{shown(target)} {reason}")
        return found

    def _forwarded(self, key: Key, node: ast.Call, values: list[Types], scope: Scope) -> Types | None:
        """A call of `f(function, *arguments)` is one of the function, where f takes them so."""
        function = self._scopes[key].node if key in self._scopes else None
        if not isinstance(function, FunctionNode) or function.args.vararg is None or not values:
            return None
        library = [t for t in values[0] if t[0] in ("function", "method", "class")]
        if not library:
            return None
        found: Types = NOTHING
        for target in library:
            found |= self._checked(target, node, node.args[1:], node.keywords, scope)
        return found

    def _pass(
        self, key: Key, values: Sequence[Types], keywords: Mapping[str | None, Types], *, skip: bool
    ) -> None:
        scope = self._scopes.get(key)
        if scope is None or not isinstance(scope.node, FunctionNode):
            return
        names = [a.arg for a in (*scope.node.args.posonlyargs, *scope.node.args.args)]
        for name, found in zip(names[1:] if skip else names, values, strict=False):
            self._add(scope.names, name, found)
        for keyword, found in keywords.items():
            if keyword is not None:
                self._add(scope.names, keyword, found)

    def _make(self, key: Key, values: Sequence[Types], keywords: Mapping[str | None, Types]) -> Types:
        made = self._classes.get(key)
        if made is not None and "__init__" in made.scope.names:
            self._pass((key[0], f"{key[1]}.__init__"), values, keywords, skip=True)
        elif made is not None:
            for name, found in (*zip(made.fields, values, strict=False), *keywords.items()):
                if name is not None:
                    self._add(made.attributes, name, found)
        return frozenset({("pyobject", key)})
