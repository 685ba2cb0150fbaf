"""Every command in the documentation exists, with the options that it is shown with: their own parsers say so."""

import re
from pathlib import Path

import pytest

from tests.rigs.doc_commands import is_ours, options, problem
from tests.rigs.doc_pages import Block, Page, Unclear, pages
from tests.rigs.doc_shell import commands_of, noted, noted_lines

PAGES = pages()
SHELL = "sh"
UNSHOWN = ("json", "yaml", "toml", "python", "text")
"""Languages of blocks that hold no command."""


def findings(page: Page) -> list[str]:
    """What is wrong with the commands of a page, each with its line."""
    found = [finding for block in page.blocks for finding in of_block(block)]
    for code, line in page.code_in_sentences:
        found += [f"{page.name}:{line}: {text}" for text in of_code(code)]
    return found


def of_block(block: Block) -> list[str]:
    if block.language == SHELL:
        try:
            commands = list(commands_of(block.body))
        except ValueError as error:
            return [f"{block.place}: {error}"]
        return [f"{block.place}: {text}" for words in commands if (text := problem(words, whole=True))]
    if block.language in UNSHOWN:
        return []
    return [f"{block.place}: {text}" for line in noted_lines(block.body) for text in of_line(line)]


def of_line(line: str) -> list[str]:
    return [text for words in noted(line) if is_ours(words) and (text := problem(words, whole=False))]


def of_code(code: str) -> list[str]:
    if code.startswith("--"):
        names = re.findall(r"--[a-z][a-z0-9-]*", code)
        return [f"no command has the option {name}" for name in names if name not in options()]
    signed = "\\" in code or re.search(r" v\d+$", code)  # bytes that are signed, not a command
    return [] if signed else of_line(code)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_exists_as_it_is_shown(page: Page) -> None:
    assert findings(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_a_story_is_played_or_says_in_a_known_word_why_not(page: Page) -> None:
    known = ("not run:", "terminal ", "again until:", "prints")
    for block in page.blocks:
        if page.story is not None:
            assert all(
                mark.startswith((*known, "story:", "brings:", "free ports:")) for mark in block.marks
            ), block.place
        if block.why_not:
            assert block.language == SHELL, f"{block.place}: only a block of sh is played"
        if any(mark.startswith("terminal ") for mark in block.marks):
            assert block.terminal is not None, f"{block.place}: this mark cannot be read"
        if any(mark.startswith("again until:") for mark in block.marks):
            assert block.until, f"{block.place}: this mark cannot be read"


def test_the_pages_show_commands_of_both_programs_and_of_the_simulation() -> None:
    """So that a page that is read wrongly does not pass as one without commands."""
    shown = [
        " ".join(words[:3])
        for page in PAGES
        for block in page.blocks
        if block.language == SHELL
        for words in commands_of(block.body)
    ]
    for start in ("edge-runtime run", "fleet serve", "fleet rollout create", "python -m sim", "make demo"):
        assert any(line.startswith(start) for line in shown), start
    assert len(shown) > 80


# -- what is checked must be able to fail --------------------------------------------------------------------------


def page_of(tmp_path: Path, text: str) -> Page:
    return Page(tmp_path / "page.md", text)


@pytest.mark.parametrize(
    ("shell", "said"),
    [
        ("edge-runtime run site.yaml --event events.ndjson", "--event"),
        ("edge-runtime runn site.yaml", "no command runn"),
        ("edge-runtime gate strater site_standard", "no command strater"),
        ("edge-runtime run", "is missing"),
        ("edge-runtime run site.yaml more.yaml", "takes no more.yaml"),
        ("edge-runtime run site.yaml --max-frames many", "--max-frames"),
        ("sudo /opt/x/bin/fleet init /srv/fleet --hosts fleet.example", "--hosts"),
        ("T=$(fleet device invite --labels site=north)", "--labels"),
        ('printf "%s" "$(fleet device invite --labels a=b)" >token', "--labels"),
        ("if fleet helth; then echo well; fi", "no command helth"),
        ("fleet events list --data fleet | edge-runtime helth", "no command helth"),
        ("python -m sim run all --rigs local", "--rigs"),
        ("python -m sim.nothing", "no such module"),
        ("python -m sim run all --rig moon", "moon"),
        ("make dmeo", "no target dmeo"),
        ("make demo CLIPS=yard.mp4", "no variable CLIPS"),
        ("deploy/install.sh server some.whl --chekc", "--chekc"),
        ("edge-runtine run site.yaml", "no program of ours"),
        ("cat >site.yaml <<EOF", "heredoc"),
        ('echo "never closed', "does not end"),
    ],
)
def test_a_wrong_command_in_a_block_is_found(tmp_path: Path, shell: str, said: str) -> None:
    (finding,) = findings(page_of(tmp_path, f"# T\n\n```sh\n{shell}\n```\n"))
    assert finding.startswith("page.md:3: ")
    assert said in finding


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("`edge-runtime outbox status|lost`", "no command lost"),
        ("`fleet rollout plan --releases\nmodels/people/7`", "--releases"),
        ("say `--no-such-option` so", "--no-such-option"),
        ("```\nedge-runtime model check models/mine [--jsn]        0 fit\n```", "--jsn"),
        ("```console\nanna$ fleet rollout crate plan.yaml\nr1\n```", "no command crate"),
    ],
)
def test_a_wrong_command_in_a_note_is_found(tmp_path: Path, text: str, said: str) -> None:
    (finding,) = findings(page_of(tmp_path, text))
    assert said in finding


@pytest.mark.parametrize(
    "shell",
    [
        "fleet events list --data fleet --json | jq '.[0]' > first.json 2>/dev/null",
        'case $? in\n  0) echo "on all" ;;\n  14 | 15) fleet rollout status "$R" --json | jq .codes ;;\nesac',
        "python3 -m venv device && device/bin/pip install 'edge-fleet-runtime[device] @ file:///path'",
        "export FLEET_DATA=/srv/fleet  # it's for all that follow",
        "fleet keys begin fleet.repository --out first.proposal \\\n    --person ada.public.json",
        "while ! edge-runtime status --once; do sleep 1; done",
    ],
)
def test_a_right_one_is_not(tmp_path: Path, shell: str) -> None:
    assert findings(page_of(tmp_path, f"```sh\n{shell}\n```\n")) == []


def test_a_reason_that_is_not_in_the_list_is_none(tmp_path: Path) -> None:
    (block,) = page_of(tmp_path, "<!-- not run: later -->\n```sh\necho 1\n```\n").blocks
    with pytest.raises(Unclear, match="'later' is no reason"):
        _ = block.why_not
    (block,) = page_of(tmp_path, "<!-- not run: tested by tests/no.py -->\n```sh\necho 1\n```\n").blocks
    with pytest.raises(Unclear, match="no such test"):
        _ = block.why_not
