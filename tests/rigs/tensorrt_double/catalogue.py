"""What the walker of the syntax tree asks of a library: which names there are, and whether a call fits.

A type is a tuple: ("module", …), ("class", name), ("object", name), ("function", name), ("method", class, name), or
("any",) for something of the library whose class nobody knows, ("plain", class, name) for a number or text that a
property gives; nothing of the library is the empty set.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Protocol

from tests.rigs.tensorrt_double.api import REPOSITORY, Api, Member, Parameter, Signature
from tests.rigs.tensorrt_double.strict import class_name

Type = tuple[Any, ...]
Types = frozenset[Type]

NOTHING: Final[Types] = frozenset()
ANY: Final[Type] = ("any",)
NAMES: Final = REPOSITORY / "tests" / "data" / "cuda_names.json"

_EVERYWHERE: Final = frozenset(
    {
        "__class__",
        "__doc__",
        "__name__",
        "__module__",
        "__dict__",
        "__init__",
        "__members__",
        "__version__",
        "__file__",
    }
)
_PLAIN_PROPERTIES: Final = frozenset({"name", "value", "nbytes", "itemsize", "flags"})
_PLAIN_TYPES: Final = frozenset(
    {"", "None", "bool", "int", "str", "float", "object", "capsule", "numpy.ndarray"}
)


class Catalogue(Protocol):
    """One release of one library."""

    label: str

    def module(self, dotted: str) -> Types:
        """The module of a name, or nothing."""
        ...

    def attribute(self, owner: Type, name: str) -> Types | None:
        """What an attribute is; None where there is none."""
        ...

    def call(self, called: Type, positional: int, keywords: tuple[str, ...]) -> tuple[str | None, Types]:
        """Why the call does not fit, or None; and what comes back."""
        ...

    def returns(self, called: Type) -> Types:
        """What comes back, whatever the arguments."""
        ...

    def duties(self, base: str) -> tuple[str, ...]:
        """Methods that a subclass of this interface must have."""
        ...

    def overridden(self, base: str, name: str, count: int) -> str | None:
        """Why a method of a subclass with so many parameters does not replace the base's, or None."""
        ...


class TensorRtCatalogue:
    """TensorRT's Python module.

    Args:
        api: of one release.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self.label = f"TensorRT {api.release}"
        self._members = {m for entry in api.classes.values() for m in entry.members}

    def module(self, dotted: str) -> Types:
        return frozenset({("module", "tensorrt")}) if dotted == "tensorrt" else NOTHING

    def attribute(self, owner: Type, name: str) -> Types | None:
        if owner[0] == "module":
            return self._of_module(name)
        if owner[0] in ("class", "object"):
            return self._of_class(owner, name)
        if owner[0] == "any":
            return frozenset({ANY}) if name in self._members or name in _EVERYWHERE else None
        return NOTHING if name.startswith("__") else None

    def _of_module(self, name: str) -> Types | None:
        if name in self._api.constants:
            return frozenset({("object", "DataType")})
        if name in self._api.functions:
            return frozenset({("function", name)})
        if name in self._api.classes:
            return frozenset({("class", name)})
        return NOTHING if name in _EVERYWHERE else None

    def _member(self, owner: str, name: str) -> tuple[str, Member] | None:
        for entry in self._api.mro(owner):
            if name in entry.members:
                return entry.name, entry.members[name]
        return None

    def _of_class(self, owner: Type, name: str) -> Types | None:
        found = self._member(owner[1], name)
        if found is None:
            return NOTHING if name in _EVERYWHERE else None
        where, member = found
        if member.kind == "callable":
            return frozenset({("unbound" if owner[0] == "class" else "method", where, name)})
        if member.kind == "property":
            plain = name in _PLAIN_PROPERTIES or name.startswith(("num_", "is_", "device_memory"))
            return frozenset({("plain" if plain else "any", where, name)})
        if member.kind == "class":
            return frozenset({("class", f"{where}.{name}")})
        if member.kind == "int":
            return NOTHING
        severity = "ILogger.Severity" if member.kind == "Severity" else where
        return frozenset({("object", severity)})

    def call(self, called: Type, positional: int, keywords: tuple[str, ...]) -> tuple[str | None, Types]:
        signatures = self._signatures(called)
        if called[0] in ("plain", "any"):
            return ("is no method" if len(called) > 1 else None), NOTHING
        if called[0] == "unbound":
            positional -= 1
        misfits = [s.misfit(positional, keywords) for s in signatures]
        if misfits and all(misfits):
            return "; ".join(dict.fromkeys(m for m in misfits if m)), self.returns(called)
        if not signatures:
            return "takes no call: only TensorRT makes it", self.returns(called)
        return None, self.returns(called)

    def _signatures(self, called: Type) -> tuple[Signature, ...]:
        if called[0] == "class":
            entry = self._api.classes[called[1]]
            if entry.values:
                return (Signature((Parameter("value"),)),)
            return entry.members["__init__"].signatures if "__init__" in entry.members else ()
        if called[0] in ("method", "unbound"):
            return self._api.classes[called[1]].members[called[2]].signatures
        if called[0] == "function":
            return self._api.functions[called[1]].signatures
        return ()

    def returns(self, called: Type) -> Types:
        if called[0] == "class":
            return frozenset({("object", called[1])})
        return frozenset().union(*(self._named(s.returns) for s in self._signatures(called)))

    def _named(self, text: str) -> Types:
        if text.lower().startswith(("list[", "collections.abc.sequence[")):
            inner = self._named(text[text.index("[") + 1 : -1])
            return frozenset({("list", inner)}) if inner else NOTHING
        name = class_name(text)
        if name in self._api.classes:
            return frozenset({("object", name)})
        return (
            NOTHING if text in _PLAIN_TYPES or not text.startswith(("tensorrt.", "nv")) else frozenset({ANY})
        )

    def duties(self, base: str) -> tuple[str, ...]:
        if base not in ("ILogger", "IProgressMonitor", "IProfiler", "IStreamReader"):
            return ()
        members = self._api.classes[base].members.values()
        return tuple(m.name for m in members if m.kind == "callable" and not m.name.startswith("_"))

    def overridden(self, base: str, name: str, count: int) -> str | None:
        found = self._member(base, name)
        if found is None or found[1].kind != "callable" or not found[1].signatures:
            return None
        wanted = {len(s.parameters) for s in found[1].signatures if not s.variadic}
        if not wanted or count in wanted or name == "__init__":
            return None
        return f"is called with {sorted(wanted)[0]} arguments, and takes {count}"


class CudaCatalogue:
    """`cuda.bindings` or `pycuda`, as recorded.

    Args:
        library: which.
        record: of one release.
    """

    _MADE: Final = {"mem_alloc": "DeviceAllocation", "module_from_buffer": "Module"}
    _METHODS: Final = {
        ("Device", "retain_primary_context"): "Context",
        ("Module", "get_function"): "Function",
    }

    def __init__(self, library: str, record: dict[str, Any]) -> None:
        self._library = library
        self._record = record
        self.label = f"{library} {record['version']}"

    def _part(self, module: str) -> dict[str, Any]:
        found: dict[str, Any] = self._record.get(module, {})
        return found

    def module(self, dotted: str) -> Types:
        if dotted == self._library or self._library.startswith(f"{dotted}."):
            return frozenset({("module", dotted)})
        head, _, last = dotted.rpartition(".")
        return frozenset({("module", dotted)}) if head == self._library and last in self._record else NOTHING

    def attribute(self, owner: Type, name: str) -> Types | None:
        if owner[0] == "module":
            return self._of_module(owner[1], name)
        if owner[0] == "class":
            members = self._classes(owner[1]).get(owner[2])
            if members is not None and name in members:
                return frozenset({("method", *owner[1:], name)}) if self._library == "pycuda" else NOTHING
            return NOTHING if name in _EVERYWHERE else None
        if owner[0] == "array":  # of NumPy, over memory of the library
            return frozenset({("object", *owner[1:])}) if name == "base" else NOTHING
        if owner[0] == "object":
            members = self._classes(owner[1]).get(owner[2], {})
            return frozenset({("method", *owner[1:], name)}) if name in members else None
        return NOTHING if name.startswith("__") else None

    def _classes(self, module: str) -> dict[str, Any]:
        part = self._part(module)
        found: dict[str, Any] = part.get("classes") or {
            k: dict.fromkeys(v) for k, v in part.get("enums", {}).items()
        }
        return found

    def _of_module(self, dotted: str, name: str) -> Types | None:
        if child := self.module(f"{dotted}.{name}"):
            return child
        if dotted == self._library:
            return NOTHING if name in (*self._record.get("constants", ()), "__version__") else None
        module = dotted.rpartition(".")[2]
        if name in self._part(module).get("functions", {}):
            return frozenset({("function", module, name)})
        if name in self._classes(module):
            return frozenset({("class", module, name)})
        return NOTHING if name in _EVERYWHERE else None

    def call(self, called: Type, positional: int, keywords: tuple[str, ...]) -> tuple[str | None, Types]:
        parameters = self._parameters(called)
        if parameters is None:
            return None, self.returns(called)
        named = [p for p in parameters if not p.startswith("*")]
        reason = None
        if positional > len(named) and named == parameters:
            reason = f"takes {len(named)} arguments, not {positional}"
        elif unknown := [k for k in keywords if k not in named[positional:]]:
            reason = f"has no parameter {unknown[0]}"
        elif self._library != "pycuda" and positional + len(keywords) < len(named):
            reason = f"needs {', '.join(named[positional:])}"  # pycuda's record does not know the defaults
        return reason, self.returns(called)

    def _parameters(self, called: Type) -> list[str] | None:
        if called[0] == "function":
            found: list[str] | None = self._part(called[1])["functions"][called[2]]
            return found
        if called[0] == "method":
            method: list[str] | None = self._classes(called[1])[called[2]].get(called[3])
            return method
        return None

    def returns(self, called: Type) -> Types:
        if called[0] == "class" and self._library == "pycuda":
            return frozenset({("object", *called[1:])})
        made = None
        if called == ("function", "driver", "pagelocked_empty") and self._library == "pycuda":
            return frozenset({("array", "driver", "PagelockedHostAllocation")})
        if called[0] == "function":
            made = self._MADE.get(called[2])
        elif called[0] == "method":
            made = self._METHODS.get((called[2], called[3]))
        return frozenset({("object", "driver", made)}) if made and self._library == "pycuda" else NOTHING

    def duties(self, base: str) -> tuple[str, ...]:
        return ()

    def overridden(self, base: str, name: str, count: int) -> str | None:
        return None


def cuda_catalogues(path: Path = NAMES) -> Iterable[CudaCatalogue]:
    """Every recorded release of both libraries."""
    record = json.loads(path.read_text(encoding="utf-8"))
    for library in ("cuda.bindings", "pycuda"):
        for release in record[library]["releases"]:
            yield CudaCatalogue(library, release)
