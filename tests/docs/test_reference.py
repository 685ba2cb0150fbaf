import subprocess
import sys

from edge_runtime.cli.commands import COMMANDS
from tests.conftest import REPOSITORY

# What scripts rely on: these words must stand in the reference of the command line.
CONTRACT = {
    "edge-runtime model import FILE": ["--out DIR", "--family", "--labels FILE", "--yes"],
    "edge-runtime model check": ["--json"],
    "edge-runtime eval DIR": ["--images", "--annotations FILE", "--classes", "--json"],
    "edge-runtime run CONFIG": [
        "--events FILE",
        "--annotate FILE",
        "--max-frames",
        "--summary FILE",
        "--metrics HOST:PORT",
    ],
    "edge-runtime bench CONFIG": ["--json"],
    "edge-runtime config check FILE": ["--json"],
    "edge-runtime doctor [CONFIG]": ["--json", "--facts FILE", "--timeout"],
    "edge-runtime config schema": [],
    "edge-runtime config init": ["--camera URL_OR_PATH", "--model PACKAGE", "--label CLASS", "--out", "--still"],
    "edge-runtime preflight CONFIG": ["--cameras", "--json"],
}  # fmt: skip


def test_no_generated_page_is_stale() -> None:
    command = [sys.executable, "-m", "docs.generate_reference", "--check"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_the_command_line_keeps_its_contract() -> None:
    page = (REPOSITORY / "docs" / "cli.md").read_text(encoding="utf-8")
    sections = page.split("\n## ")[1:]
    for usage, words in CONTRACT.items():
        section = next((text for text in sections if f"\n{usage}" in text), None)
        assert section is not None, usage
        for word in words:
            assert word in section, f"{usage} {word}"


def test_every_command_is_described_with_its_exit_codes() -> None:
    page = (REPOSITORY / "docs" / "cli.md").read_text(encoding="utf-8")
    for row in COMMANDS:
        for name, exits in row.exits.items():
            section = page.split(f"## `edge-runtime {row.name} {name}".rstrip() + "`\n")[1].split("\n## ")[0]
            for code, meaning in exits.items():
                assert f"| {code} | {meaning} |" in section


def test_every_decision_record_has_a_number_and_its_parts() -> None:
    records = sorted((REPOSITORY / "docs" / "decisions").glob("[0-9]*.md"))
    assert records
    for record in records:
        text = record.read_text(encoding="utf-8")
        assert text.startswith((f"# {record.name[:4]} ", f"# {record.name[:4]}: ")), record.name
        for part in ("## Context", "## Decision"):
            assert part in text, f"{record.name}: {part}"
