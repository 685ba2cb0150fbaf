"""The page of the architecture names every room."""

import re

import pytest

from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs/architecture.md").read_text()


def rooms(package: str) -> set[str]:
    found = (REPOSITORY / package).iterdir()
    return {path.stem for path in found if path.name[0] != "_" and (path.is_dir() or path.suffix == ".py")}


@pytest.mark.parametrize(
    ("package", "begins", "ends"),
    [
        ("edge_runtime", "\n| room | purpose | may need |", "\nThe fleet server:"),
        ("fleet_server", "\nThe fleet server:", "\n## "),
    ],
)
def test_the_tables_name_the_rooms_that_there_are(package: str, begins: str, ends: str) -> None:
    table = PAGE.split(begins)[1].split(ends)[0]
    cells = re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == rooms(package)


def test_the_table_of_processes_names_modules_that_there_are() -> None:
    table = PAGE.split("\n## Processes\n")[1].split("\n## ")[0]
    named = re.findall(r"^\| `(edge_runtime[\w.]+)`", table, re.MULTILINE)
    assert len(named) > 5
    for name in named:
        place = REPOSITORY / name.replace(".", "/")
        assert place.with_suffix(".py").is_file() or (place / "__main__.py").is_file(), name
