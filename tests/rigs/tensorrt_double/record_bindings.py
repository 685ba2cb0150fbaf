"""Records what `tensorrt_api` leaves out, for tests/data/tensorrt_bindings.json; run by hand for a new release.

    pip download --no-deps --only-binary :all: -d W tensorrt-cu13-bindings==11.4.0.106    # and unzip it into W
    export LD_LIBRARY_PATH=STUBS PYTHONPATH=W/tensorrt_bindings
    python tests/rigs/tensorrt_double/record_bindings.py 11.4.0 11.4.0.106 tests/data/tensorrt_bindings.json

STUBS holds three libraries of a few empty functions, which the README of `tensorrt_api` describes: the bindings
load with them on a machine without TensorRT. Recorded are enum values, base classes, special methods and the
overloads behind `*args, **kwargs`; what the wheel's own `__init__.py` adds to the module was read there, and has
the same names in the three releases.
"""

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any, Final

MADE: Final = (
    "tests/rigs/tensorrt_double/record_bindings.py; see there. Wheels tensorrt-cu12-bindings 10.3.0, "
    "tensorrt-cu13-bindings 10.13.3.9 and 11.4.0.106, whose licence is NVIDIA's; names, values and signatures only."
)
PYTHON_LEVEL: Final = {
    "constants": ["__version__"],
    "functions": {"nptype": "nptype(trt_type)", "volume": "volume(iterable)"},
    "properties": {"DataType": ["itemsize"]},
}
_SPECIAL: Final[tuple[str, ...]] = (
    "__len__",
    "__getitem__",
    "__setitem__",
    "__index__",
    "__int__",
    "__call__",
    "__del__",
    "__iter__",
)


class Record:
    """What one module has beside its names."""

    def __init__(self, module: Any) -> None:
        self.values: dict[str, dict[str, int]] = {}
        self.overloads: dict[str, list[str]] = {}
        self.bases: dict[str, list[str]] = {}
        self.special: dict[str, list[str]] = {}
        names = [name for name in dir(module) if not name.startswith("__")]
        for name in names:
            if isinstance(getattr(module, name), type):
                self._class(name, getattr(module, name))
        self.constants = {
            name: getattr(module, name).name
            for name in names
            if type(getattr(module, name)).__name__ == "DataType"
        }

    def _class(self, name: str, kind: type[Any]) -> None:
        if members := getattr(kind, "__members__", None):
            self.values[name] = {key: int(value) for key, value in members.items()}
        if bases := [base.__name__ for base in kind.__mro__[1:] if base.__module__.startswith("tensorrt")]:
            self.bases[name] = bases
        if special := [method for method in _SPECIAL if method in dir(kind)]:
            self.special[name] = special
        for member in dir(kind):
            found = getattr(kind, member)
            if isinstance(found, type):
                if not member.startswith("__"):
                    self._class(f"{name}.{member}", found)
            elif callable(found) and (member == "__init__" or not member.startswith("__")):
                lines = (found.__doc__ or "").splitlines()
                told = [re.sub(r"^\d+\. ", "", line) for line in lines if re.match(r"^\d+\. \w+\(", line)]
                if told and lines[0].endswith("(*args, **kwargs)"):
                    self.overloads[f"{name}.{member}"] = told

    def as_json(self, version: str) -> dict[str, Any]:
        """The entry of a release."""
        return {
            "bases": self.bases,
            "constants": self.constants,
            "enum_values": self.values,
            "overloads": self.overloads,
            "python_level": PYTHON_LEVEL,
            "special_methods": self.special,
            "version": version,
        }


def written(record: dict[str, Any]) -> str:
    """The file's text: one class a line, so that a difference can be read."""
    releases = []
    for release, sections in record["releases"].items():
        parts = []
        for name, section in sorted(sections.items()):
            if isinstance(section, dict):
                lines = [
                    f"    {json.dumps(k)}: {json.dumps(v, sort_keys=True)}"
                    for k, v in sorted(section.items())
                ]
                parts.append(f"   {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n   }")
            else:
                parts.append(f"   {json.dumps(name)}: {json.dumps(section)}")
        releases.append(f"  {json.dumps(release)}: {{\n" + ",\n".join(parts) + "\n  }")
    head = f' "made": {json.dumps(record["made"])},\n "releases": {{\n'
    return "{\n" + head + ",\n".join(releases) + "\n }\n}\n"


def main(release: str, version: str, out: Path) -> None:
    """Adds or replaces one release."""
    tensorrt = importlib.import_module("tensorrt")  # the bindings of the release
    record = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {"releases": {}}
    record["made"] = MADE
    record["releases"][release] = Record(tensorrt).as_json(version)
    out.write_text(written(record), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
