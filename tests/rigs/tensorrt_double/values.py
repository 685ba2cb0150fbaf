"""What an expression may be, followed through names, attributes, containers and annotations."""

import ast
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.rigs.tensorrt_double.catalogue import NOTHING, Catalogue, Type, Types
from tests.rigs.tensorrt_double.scopes import (
    OWN,
    Key,
    PyClass,
    Scope,
    container,
    elements,
    guards_of,
    merged,
    part,
    shown,
)

Told = Callable[[str, ast.AST, str], None]
"""Module, where, what is wrong."""


class Values:
    """Expressions of some modules.

    Args:
        catalogue: of the library.
        modules: syntax trees by dotted name.
        told: called for each name that the library has not and each call that does not fit.

    Attributes:
        seen: names of the library that were met.
    """

    def __init__(self, catalogue: Catalogue, modules: Mapping[str, ast.Module], told: Told) -> None:
        self._catalogue = catalogue
        self._modules = modules
        self._told = told
        self._telling = False
        self._changed = False
        self.seen: set[str] = set()
        self._scopes: dict[Key, Scope] = {}
        self._classes: dict[Key, PyClass] = {}
        self._returned: dict[Key, Types] = defaultdict(lambda: NOTHING)

    def _call(self, node: ast.Call, scope: Scope) -> Types:
        raise NotImplementedError

    def _scope(self, key: Key, parent: Scope | None, node: Any) -> Scope:
        if key not in self._scopes:
            self._scopes[key] = Scope(key, parent, node)
        self._scopes[key].guards = list(parent.guards) if parent else []
        return self._scopes[key]

    def _add(self, names: dict[str, Types], name: str, found: Types) -> None:
        before = names.get(name, NOTHING)
        if name not in names or not found <= before:
            names[name] = merged(before | found)
            self._changed = self._changed or names[name] != before

    def _tell(self, scope: Scope, node: ast.AST, text: str) -> None:
        if self._telling:
            self._told(scope.key[0], node, text)

    def _scope_of(self, module: str) -> Scope:
        return self._scope((module, ""), None, self._modules[module])

    def _bind(self, target: ast.expr, found: Types, scope: Scope) -> None:
        match target:
            case ast.Name():
                self._add(scope.names, target.id, found)
            case ast.Starred():
                self._bind(target.value, frozenset({("list", found)}) if found else NOTHING, scope)
            case ast.Tuple() | ast.List():
                for place, element in enumerate(target.elts):
                    self._bind(element, part(found, place), scope)
            case ast.Attribute():
                for owner in self.value(target.value, scope):
                    if owner[0] == "pyobject" and owner[1] in self._classes:
                        self._add(self._classes[owner[1]].attributes, target.attr, found)
                    elif owner[0] not in OWN:
                        self._attribute(
                            frozenset({owner}), target.attr, target, scope, ast.unparse(target.value)
                        )
            case ast.Subscript():
                self.value(target.slice, scope)
                if found:
                    self._bind(target.value, frozenset({("list", found)}), scope)

    def value(self, node: ast.expr, scope: Scope) -> Types:
        """What an expression may be, of the library or of the modules' own."""
        match node:
            case ast.Name():
                return scope.find(node.id)
            case ast.Attribute():
                return self._attribute(
                    self.value(node.value, scope), node.attr, node, scope, ast.unparse(node.value)
                )
            case ast.Call():
                return self._call(node, scope)
            case ast.IfExp():
                self.value(node.test, scope)
                return self._under(node.body, guards_of(node.test), scope) | self._under(
                    node.orelse, guards_of(node.test, negated=True), scope
                )
            case ast.BoolOp():
                found, guards = NOTHING, list[tuple[str, str]]()
                for operand in node.values:
                    found |= self._under(operand, guards, scope)
                    guards += guards_of(operand, negated=isinstance(node.op, ast.Or))
                return found
            case ast.NamedExpr():
                found = self.value(node.value, scope)
                self._bind(node.target, found, scope)
                return found
            case ast.Tuple():
                return frozenset({("tuple", tuple(self.value(e, scope) for e in node.elts))})
            case ast.List() | ast.Set():
                return container(self.value(e, scope) for e in node.elts)
            case ast.Dict():
                for key in node.keys:
                    if key is not None:
                        self.value(key, scope)
                return container(self.value(e, scope) for e in node.values)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                inner = self._generators(node, node.generators, scope)
                return container([self.value(node.elt, inner)])
            case ast.DictComp():
                inner = self._generators(node, node.generators, scope)
                self.value(node.key, inner)
                return container([self.value(node.value, inner)])
            case ast.Subscript():
                found = self.value(node.value, scope)
                self.value(node.slice, scope)
                if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
                    return part(found, node.slice.value)
                return found if isinstance(node.slice, ast.Slice) else elements(found)
            case ast.Lambda():
                return self.value(node.body, scope) and NOTHING
            case ast.Starred() | ast.Await():
                return self.value(node.value, scope)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.value(child, scope)
                return NOTHING

    def _under(self, node: ast.expr, guards: list[tuple[str, str]], scope: Scope) -> Types:
        scope.guards += guards
        found = self.value(node, scope)
        if guards:
            del scope.guards[-len(guards) :]
        return found

    def _generators(self, node: ast.expr, generators: Sequence[ast.comprehension], scope: Scope) -> Scope:
        inner = self._scope((scope.key[0], f"{scope.key[1]}.<{node.lineno}:{node.col_offset}>"), scope, node)
        for generator in generators:
            self._bind(generator.target, elements(self.value(generator.iter, inner)), inner)
            for test in generator.ifs:
                self.value(test, inner)
        return inner

    def _annotated(self, node: ast.expr, scope: Scope) -> Types:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                return self._annotated(ast.parse(node.value, mode="eval").body, scope)
            except SyntaxError:
                return NOTHING
        if isinstance(node, ast.BinOp):
            return self._annotated(node.left, scope) | self._annotated(node.right, scope)
        if isinstance(node, ast.Subscript):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            inner: Types = frozenset().union(*(self._annotated(p, scope) for p in parts))
            return frozenset({("list", inner)}) if inner else NOTHING
        if not isinstance(node, ast.Name | ast.Attribute):
            return NOTHING
        found = self.value(node, scope)
        classes = {("object", *t[1:]) for t in found if t[0] == "class"}
        return frozenset(classes | {("pyobject", t[1]) for t in found if t[0] == "pyclass"})

    def _attribute(self, owners: Types, name: str, node: ast.AST, scope: Scope, text: str) -> Types:
        found: Types = NOTHING
        for owner in owners:
            if owner[0] == "pymodule":
                found |= self._scope_of(owner[1]).find(name)
            elif owner[0] in ("pyobject", "pyclass"):
                found |= self._of_class(owner, name, node, scope)
            elif owner[0] not in OWN:
                found |= self._of_library(owner, name, node, scope, text)
        return found

    def _of_library(self, owner: Type, name: str, node: ast.AST, scope: Scope, text: str) -> Types:
        result = self._catalogue.attribute(owner, name)
        self.seen.add(f"{'.'.join(map(str, owner[1:]))}.{name}")
        if result is None:
            if (text, name) not in scope.guards:
                self._tell(scope, node, f"{shown(owner)} has no {name}")
            return NOTHING
        return result

    def _of_class(self, owner: Type, name: str, node: ast.AST, scope: Scope) -> Types:
        made = self._classes.get(owner[1])
        if made is None:
            return NOTHING
        found = made.attributes.get(name, NOTHING)
        known = name in made.attributes
        if name in made.scope.names:
            known = True
            for entry in made.scope.names[name]:
                if entry[0] == "pyproperty":
                    found |= self._returned[entry[1]]
                elif entry[0] == "pyfunc" and owner[0] == "pyobject":
                    found |= {("bound", entry[1])}
                else:
                    found |= {entry}
        for base in made.bases if not known else ():
            if base[0] == "pyclass":
                found |= self._of_class((owner[0], base[1]), name, node, scope)
            elif base[0] == "class":
                kind = "object" if owner[0] == "pyobject" else "class"
                found |= self._of_library((kind, *base[1:]), name, node, scope, "")
        return found
