"""Pages of the documentation as a test reads them: fenced blocks with their marks, and code within sentences.

A mark is an HTML comment in the line before a block, so that readers do not see it:

    <!-- not run: a board -->                       why the block is not played; the reasons are a closed list
    <!-- terminal server, ready: `ready https` -->  runs on in a terminal of its own, once it has said this;
                                                    what ran there before is ended by Ctrl-C
    <!-- again until: `text` -->                    is typed again until it prints this
    <!-- prints -->                                 the block before it printed these lines; … stands for anything

Marks of a whole page stand alone: `<!-- story: short, after first-camera.md, own-model.md -->`,
`<!-- brings: yolox_nano.onnx = models/yolox_nano_coco_416.onnx -->` (of the folder of real data),
`<!-- free ports: 8443 8883 -->`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.conftest import REPOSITORY

DOCS = REPOSITORY / "docs"
GENERATED = ("cli.md", "fleet-cli.md", "configuration.md")

WHY_NOT = {
    "set-up": "it makes an environment from a package index, which CI does before the tests",
    "root": "it changes the machine, as root",
    "a board": "it needs a Jetson or another board",
    "a camera": "it needs a camera at the machine or in the network",
    "a person": "somebody reads it, types at it, or ends it with Ctrl-C",
    "a service manager": "it needs systemd or a container engine",
    "another machine": "it is typed on a machine that is not this one",
    "your own": "it names a file, a host or a device that only the reader has",
    "tested by": "another test does just this, and the mark names it",
}
"""The reasons for which a block of a story is not played, and what each means."""

_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=indent)```[ \t]*$", re.M | re.S)
_MARKS = re.compile(r"(?:^[ \t]*<!--[^>]*-->[ \t]*\n)+\Z", re.M)
_COMMENT = re.compile(r"<!--\s*(.*?)\s*-->", re.S)
_TITLE = re.compile(r'title="([^"]+)"')
_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_READY = re.compile(r"terminal (\w+)(?:, ready: `(.+)`)?")
_AGAIN = re.compile(r"again until: `(.+)`")
_STORY = re.compile(r"story: (short|long)(?:, after (.+))?")


class Unclear(AssertionError):
    """A mark that means nothing; the text says where."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block.

    Attributes:
        page: its file's name.
        line: of its first fence, from 1.
        language: `sh`, `yaml`, …; empty for plain text.
        title: name of a file that the reader writes; empty where it is none.
        body: without its fences and their indentation.
        marks: what stands in comments right before it.
    """

    page: str
    line: int
    language: str
    title: str
    body: str
    marks: tuple[str, ...]

    @property
    def place(self) -> str:
        """For a person who looks for it."""
        return f"{self.page}:{self.line}"

    def mark(self, pattern: "re.Pattern[str]") -> "re.Match[str] | None":
        """The one mark that has this form."""
        return next((found for mark in self.marks if (found := pattern.fullmatch(mark))), None)

    @property
    def why_not(self) -> str:
        """The reason for which it is not played; empty where it is.

        Raises:
            Unclear: the reason is not in the list.
        """
        given = next(
            (mark.removeprefix("not run: ") for mark in self.marks if mark.startswith("not run:")), ""
        )
        if not given:
            return ""
        reason = next((known for known in WHY_NOT if given == known or given.startswith(f"{known} ")), None)
        if reason is None or (reason != given and reason != "tested by"):
            raise Unclear(f"{self.place}: {given!r} is no reason; reasons are {', '.join(WHY_NOT)}")
        if reason == "tested by" and not (REPOSITORY / given.removeprefix("tested by ")).is_file():
            raise Unclear(f"{self.place}: {given}: there is no such test")
        return given

    @property
    def terminal(self) -> "tuple[str, str] | None":
        """Name of its own terminal, and what it says once it works; empty where nothing is waited for."""
        found = self.mark(_READY)
        return None if found is None else (found[1], found[2] or "")

    @property
    def until(self) -> str:
        """What it prints in the end, where it is typed again and again."""
        found = self.mark(_AGAIN)
        return "" if found is None else found[1]

    @property
    def is_printed(self) -> bool:
        """Whether it shows what the block before it prints."""
        return "prints" in self.marks


class Page:
    """One page.

    Attributes:
        path: of the file.
        text: of it.
    """

    def __init__(self, path: Path, text: str | None = None) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8") if text is None else text

    @property
    def name(self) -> str:
        """Within the documentation, or within the repository."""
        base = DOCS if self.path.is_relative_to(DOCS) else REPOSITORY
        return str(self.path.relative_to(base)) if self.path.is_relative_to(base) else self.path.name

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Its fenced blocks, in order."""
        return tuple(self._read())

    def _read(self) -> Iterator[Block]:
        for found in _FENCE.finditer(self.text):
            before = _MARKS.search(self.text, 0, found.start())
            indent, info = found["indent"], found["info"].strip()
            title = _TITLE.search(info)
            lines = found["body"].splitlines(keepends=True)
            yield Block(
                page=self.name,
                line=self.text.count("\n", 0, found.start()) + 1,
                language=info.partition(" ")[0],
                title=title[1] if title else "",
                body="".join(line.removeprefix(indent) for line in lines),
                marks=tuple(_COMMENT.findall(before[0])) if before else (),
            )

    @cached_property
    def code_in_sentences(self) -> tuple[tuple[str, int], ...]:
        """What stands between single backticks, without line ends, and in which line."""
        text = _FENCE.sub(lambda found: "\n" * found[0].count("\n"), self.text)
        return tuple(
            (" ".join(found[1].replace(r"\|", "|").split()), text.count("\n", 0, found.start()) + 1)
            for found in _CODE.finditer(text)
        )

    @property
    def story(self) -> "tuple[str, tuple[str, ...]] | None":
        """How long its story is, `short` or `long`, and the pages that come before it; None where it tells none."""
        found = self._of_page(_STORY)
        return None if found is None else (found[1], tuple(found[2].split(", ")) if found[2] else ())

    @property
    def brings(self) -> dict[str, str]:
        """What the reader brings: name in their folder → place below the folder of real data."""
        found = self._of_page(re.compile(r"brings: (.+)"))
        pairs = found[1].split("; ") if found else []
        return {pair.partition(" = ")[0]: pair.partition(" = ")[2] for pair in pairs}

    @property
    def ports(self) -> tuple[str, ...]:
        """Ports in its commands that may be taken on the machine of a test."""
        found = self._of_page(re.compile(r"free ports: ([\d ]+)"))
        return tuple(found[1].split()) if found else ()

    def _of_page(self, pattern: "re.Pattern[str]") -> "re.Match[str] | None":
        return next(
            (found for mark in _COMMENT.findall(self.text) if (found := pattern.fullmatch(mark))), None
        )


def pages() -> list[Page]:
    """All that a person reads: the documentation without its records of decisions, and every README."""
    readmes = [
        path
        for path in REPOSITORY.rglob("README.md")
        if not any(
            part.startswith(".") or part in ("out", "build") for part in path.relative_to(REPOSITORY).parts
        )
    ]
    return [Page(path) for path in sorted([*DOCS.glob("*.md"), *readmes])]


def chain(page: Page) -> list[Page]:
    """The stories that come before a page's, each once, the first one first, and it."""
    story = page.story
    assert story is not None, page.name
    found = {one.name: one for name in story[1] for one in chain(Page(DOCS / name))}
    return [*found.values(), page]


def told_last(length: str) -> list[Page]:
    """The pages of this length whose story no other of the same length goes on with."""
    found = [page for page in pages() if page.story is not None and page.story[0] == length]
    gone_on = {name for page in found if page.story is not None for name in page.story[1]}
    return [page for page in found if page.name not in gone_on]
