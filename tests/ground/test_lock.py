"""The lock names a version for everything that pyproject.toml asks for, and no address."""

import re
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[2]
DISTRIBUTION = "edge-fleet-runtime"
PYTHONS = ("3.10.12", "3.11.9", "3.12.3", "3.13.1")


def locked() -> list[Requirement]:
    lines = (REPOSITORY / "requirements.lock").read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def declared() -> list[Requirement]:
    """What pyproject.toml asks for, all extras included, read from the file itself."""
    text = (REPOSITORY / "pyproject.toml").read_text()
    head = text[text.index("dependencies = [") : text.index("[project.scripts]")]
    return [Requirement(text) for text in re.findall(r'^    "([^"]+)",', head, re.MULTILINE)] + [
        Requirement(text) for text in re.findall(r'= \["([^"]+)"\]', head)
    ]


def environment(python: str) -> dict[str, str]:
    return {
        "python_full_version": python,
        "python_version": python.rpartition(".")[0],
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "sys_platform": "linux",
        "extra": "",
    }


def test_the_list_of_declared_dependencies_is_the_real_one() -> None:
    """Guards the small parser above against what the build back end understood."""
    built = {canonicalize_name(Requirement(line).name) for line in requires(DISTRIBUTION) or []}
    assert built <= {canonicalize_name(requirement.name) for requirement in declared()}
    assert {"numpy", "pydantic", "mkdocs-material", "onnxruntime-gpu"} <= {r.name for r in declared()}


@pytest.mark.parametrize("python", PYTHONS)
def test_every_dependency_has_exactly_one_fitting_version_per_python(python: str) -> None:
    where = environment(python)
    pins: dict[str, list[str]] = {}
    for pin in locked():
        if pin.marker is None or pin.marker.evaluate(where):
            (specifier,) = pin.specifier
            assert specifier.operator == "=="
            pins.setdefault(canonicalize_name(pin.name), []).append(specifier.version)
    assert {name: versions for name, versions in pins.items() if len(versions) > 1} == {}
    for wanted in declared():
        if wanted.marker is None or wanted.marker.evaluate(where):
            found = pins.get(canonicalize_name(wanted.name))
            assert found, f"{wanted.name} is not in requirements.lock: run `make lock`"
            assert SpecifierSet(str(wanted.specifier)).contains(found[0], prereleases=True), (
                f"requirements.lock has {wanted.name} {found[0]}, pyproject.toml wants {wanted.specifier}: "
                "run `make lock`"
            )


def test_no_address_and_no_path_is_in_the_lock() -> None:
    text = (REPOSITORY / "requirements.lock").read_text()
    assert "://" not in text
    assert "--" not in text
    assert " @ " not in text
    assert "file:" not in text


def test_what_a_device_must_not_carry_is_not_required_by_it() -> None:
    text = (REPOSITORY / "pyproject.toml").read_text()
    device = text[text.index("\ndevice = [") : text.index("\nmodels = [")]
    for name in ("torch", "scipy", "matplotlib", '"onnx>', "sympy"):
        assert name not in device
