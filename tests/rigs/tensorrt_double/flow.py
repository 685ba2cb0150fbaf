"""Follows the values of a library through the syntax trees of some modules, without running them.

Imports under any name, assignments, parameters, results, attributes of `self`, containers and annotations are
followed, over all modules together and until nothing new is found; control flow is not, except for `hasattr`.
"""

import ast
from collections.abc import Sequence
from typing import Final

from tests.rigs.tensorrt_double.calls import Calls
from tests.rigs.tensorrt_double.catalogue import NOTHING, Types
from tests.rigs.tensorrt_double.scopes import (
    FunctionNode,
    PyClass,
    Scope,
    elements,
    guards_of,
    leaves,
    merged,
)

_ROUNDS: Final = 12


class Flow(Calls):
    """Statements of some modules; see `Values`."""

    def run(self) -> None:
        """Follows until nothing changes, then tells."""
        for _ in range(_ROUNDS):
            self._changed = False
            self._walk()
            if not self._changed:
                break
        self._telling = True
        self._walk()

    def _walk(self) -> None:
        for name, tree in self._modules.items():
            scope = self._scope((name, ""), None, tree)
            self._block(tree.body, scope)

    def _block(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        before = len(scope.guards)
        for statement in body:
            self._statement(statement, scope)
            if isinstance(statement, ast.If) and leaves(statement.body):
                scope.guards += guards_of(statement.test, negated=True)
        del scope.guards[before:]

    def _statement(self, node: ast.stmt, scope: Scope) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node, scope)
            case ast.ClassDef():
                self._class(node, scope)
            case ast.Import():
                self._import(node, scope)
            case ast.ImportFrom():
                self._import_from(node, scope)
            case ast.Assign():
                found = self.value(node.value, scope)
                for target in node.targets:
                    self._bind(target, found, scope)
            case ast.AnnAssign():
                found = self._annotated(node.annotation, scope)
                found |= self.value(node.value, scope) if node.value else NOTHING
                self._bind(node.target, found, scope)
            case ast.AugAssign():
                self.value(node.target, scope)
                self._bind(node.target, self.value(node.value, scope), scope)
            case ast.Return():
                found = self.value(node.value, scope) if node.value else NOTHING
                self._gives(scope, found)
            case ast.If() | ast.While():
                self.value(node.test, scope)
                self._guarded(node.body, guards_of(node.test), scope)
                self._guarded(node.orelse, guards_of(node.test, negated=True), scope)
            case ast.For() | ast.AsyncFor():
                self._bind(node.target, elements(self.value(node.iter, scope)), scope)
                self._block([*node.body, *node.orelse], scope)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    found = self.value(item.context_expr, scope)
                    if item.optional_vars is not None:
                        self._bind(item.optional_vars, found, scope)
                self._block(node.body, scope)
            case ast.Try():
                for handler in node.handlers:
                    if handler.type is not None:
                        self.value(handler.type, scope)
                    self._block(handler.body, scope)
                self._block([*node.body, *node.orelse, *node.finalbody], scope)
            case ast.Match():
                self.value(node.subject, scope)
                for case in node.cases:
                    self._block(case.body, scope)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.value(child, scope)

    def _guarded(self, body: Sequence[ast.stmt], guards: list[tuple[str, str]], scope: Scope) -> None:
        scope.guards += guards
        self._block(body, scope)
        if guards:
            del scope.guards[-len(guards) :]

    def _gives(self, scope: Scope, found: Types) -> None:
        if not found <= self._returned[scope.key]:
            self._returned[scope.key] = merged(self._returned[scope.key] | found)
            self._changed = True

    def _function(self, node: FunctionNode, scope: Scope) -> None:
        key = (scope.key[0], f"{scope.key[1]}.{node.name}".lstrip("."))
        inner = self._scope(key, scope, node)
        is_property = any(
            isinstance(d, ast.Name) and d.id in ("property", "cached_property") for d in node.decorator_list
        )
        self._add(scope.names, node.name, frozenset({("pyproperty" if is_property else "pyfunc", key)}))
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            if argument.annotation is not None:
                self._add(inner.names, argument.arg, self._annotated(argument.annotation, scope))
            else:
                inner.names.setdefault(argument.arg, NOTHING)
        static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)
        if isinstance(scope.node, ast.ClassDef) and node.args.args and not static:
            self._add(inner.names, node.args.args[0].arg, frozenset({("pyobject", scope.key)}))
        if node.returns is not None:
            self._gives(inner, self._annotated(node.returns, scope))
        for default in (*node.args.defaults, *(d for d in node.args.kw_defaults if d)):
            self.value(default, scope)
        self._block(node.body, inner)

    def _class(self, node: ast.ClassDef, scope: Scope) -> None:
        key = (scope.key[0], f"{scope.key[1]}.{node.name}".lstrip("."))
        inner = self._scope(key, scope, node)
        made = self._classes.setdefault(key, PyClass(key, inner, node))
        for base in node.bases:
            made.bases |= self.value(base, scope)
        self._add(scope.names, node.name, frozenset({("pyclass", key)}))
        self._block(node.body, inner)
        if self._telling:
            self._duties(made)

    def _duties(self, made: PyClass) -> None:
        own = {n.name: n for n in made.node.body if isinstance(n, FunctionNode)}
        for base in sorted(b for b in made.bases if b[0] == "class"):
            name = str(base[-1])
            for duty in self._catalogue.duties(name):
                if duty not in own:
                    self._tell(
                        made.scope,
                        made.node,
                        f"class {made.node.name} has no method {duty}, which {name} calls",
                    )
            for method, function in own.items():
                count = len(function.args.args) + len(function.args.posonlyargs) - 1
                if reason := self._catalogue.overridden(name, method, count):
                    self._tell(made.scope, function, f"{made.node.name}.{method} {reason}")

    def _import(self, node: ast.Import, scope: Scope) -> None:
        for alias in node.names:
            top = alias.name.split(".")[0]
            name = alias.name if alias.asname else top
            found = self._catalogue.module(name)
            if name in self._modules:
                found = frozenset({("pymodule", name)})
            if found or name in self._modules:
                self._add(scope.names, alias.asname or top, found)

    def _import_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        module = node.module or ""
        if node.level:
            parts = scope.key[0].split(".")
            module = ".".join([*parts[: len(parts) - node.level], *([module] if module else [])])
        owner = self._catalogue.module(module)
        for alias in node.names:
            found: Types = NOTHING
            if f"{module}.{alias.name}" in self._modules:
                found = frozenset({("pymodule", f"{module}.{alias.name}")})
            elif module in self._modules:
                found = self._scope_of(module).find(alias.name)
            elif owner:
                found = self._attribute(owner, alias.name, node, scope, "")
            self._add(scope.names, alias.asname or alias.name, found)
