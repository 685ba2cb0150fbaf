"""The README stays true: what it names exists, and nothing names a package registry."""

import re
import stat
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
READMES = sorted(
    path
    for path in REPOSITORY.rglob("README.md")
    if not {".venv", "out", ".cache", "node_modules"} & set(path.relative_to(REPOSITORY).parts)
)


def ids(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


@pytest.mark.parametrize("readme", READMES, ids=ids)
def test_links_lead_somewhere(readme: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", readme.read_text()):
        if "://" not in target:
            assert (readme.parent / target).exists(), target


def test_rooms_and_files_that_the_readme_names_exist() -> None:
    text = (REPOSITORY / "README.md").read_text()
    table = text.split("\n## The rooms\n")[1].split("\n## ")[0]  # others name files that a run leaves
    rooms = re.findall(r"^\| ((?:`[\w/]+`(?:, )?)+) \|", table, re.MULTILINE)
    named = [name for cell in rooms for name in re.findall(r"`([\w/]+)`", cell) if "." not in name]
    assert len(named) > 15
    for name in named:
        assert (REPOSITORY / name).is_dir() or (REPOSITORY / "edge_runtime" / name).is_dir(), name
    for name in re.findall(r"`((?:docs|deploy|edge_runtime|tests)/[\w./-]+)`", text):
        assert (REPOSITORY / name).exists(), name


@pytest.mark.parametrize("readme", READMES, ids=ids)
def test_make_targets_that_are_named_exist(readme: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    code = re.findall(r"`make ([a-z-]+)|^make ([a-z-]+)", readme.read_text(), re.MULTILINE)
    for first, second in code:
        assert (first or second) in targets


def test_commands_that_the_readme_names_exist() -> None:
    from edge_runtime.cli.commands import COMMANDS

    text = (REPOSITORY / "README.md").read_text()
    named = set(re.findall(r"edge-runtime ([a-z]+)", text))
    assert named
    assert named <= {row.name for row in COMMANDS}


RECIPES = [
    (
        "README.md",
        "device/bin/edge-runtime model import",
        {"device", "models"},
    ),  # which needs the onnx package
    ("docs/index.md", "device/bin/edge-runtime model import", {"device", "models"}),
    ("README.md", "server/bin/fleet serve", {"server"}),
]


@pytest.mark.parametrize(("page", "command", "needed"), RECIPES)
def test_a_newcomers_recipe_installs_what_its_commands_need(
    page: str, command: str, needed: set[str]
) -> None:
    blocks = re.findall(r"^```(?:sh)?\n(.*?)^```", (REPOSITORY / page).read_text(), re.M | re.S)
    (recipe,) = [block for block in blocks if "pip install" in block and command in block]
    extras = re.search(r"edge-fleet-runtime\[([a-z,]+)\] @", recipe)
    assert extras is not None
    assert needed <= set(extras.group(1).split(","))


def test_fleet_commands_that_the_readme_names_exist() -> None:
    from fleet_server.cli.commands import COMMANDS

    named = set(re.findall(r"(?:bin/|`)fleet ([a-z]+)", (REPOSITORY / "README.md").read_text()))
    assert {"init", "serve", "device"} <= named <= {row.name for row in COMMANDS}


def test_ci_is_one_executable_script() -> None:
    script = REPOSITORY / ".ci" / "run"
    assert script.stat().st_mode & stat.S_IXUSR
    text = script.read_text()
    assert text.startswith("#!/bin/bash\n")
    assert "set -euo pipefail" in text
    assert "make check" in text


def test_nothing_that_installs_names_an_address() -> None:
    installing = [
        REPOSITORY / ".ci" / "run",
        REPOSITORY / "Makefile",
        REPOSITORY / "requirements.lock",
        REPOSITORY / ".pre-commit-config.yaml",
        *(REPOSITORY / "deploy").glob("*.sh"),
        *(REPOSITORY / "deploy").rglob("*.json"),
        *(REPOSITORY / "models").rglob("recipe.json"),
    ]
    for path in installing:
        assert "://" not in path.read_text(), path
    assert not re.search(r"index-url|find-links", (REPOSITORY / "pyproject.toml").read_text())
