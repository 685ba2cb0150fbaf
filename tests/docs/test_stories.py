"""The guides do what they say: their blocks are typed, in order, in a folder like a checkout, with real processes.

A guide that goes on where another one ended is played after it. The short ones are in the default selection, the
long ones are trials.
"""

from pathlib import Path

import pytest

from tests.rigs.doc_pages import DOCS, Page, chain, told_last
from tests.rigs.doc_player import Failed, Player

GUIDES = ("quick-start.md", "first-camera.md", "own-model.md", "first-fleet.md", "first-rollout.md")


def play(pages: list[Page], folder: Path, data: Path) -> None:
    with Player(folder, data) as player:
        for page in pages:
            player.play(page)


def test_every_guide_tells_a_story() -> None:
    told = {page.name for length in ("short", "long") for last in told_last(length) for page in chain(last)}
    assert told >= set(GUIDES)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("last", told_last("short"), ids=lambda page: page.name)
def test_a_short_story_comes_out_as_it_is_told(last: Page, tmp_path: Path, shared_data: Path) -> None:
    play(chain(last), tmp_path, shared_data)


@pytest.mark.trial
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("last", told_last("long"), ids=lambda page: page.name)
def test_a_long_story_comes_out_as_it_is_told(last: Page, tmp_path: Path, shared_data: Path) -> None:
    play(chain(last), tmp_path, shared_data)


def page_of(text: str) -> Page:
    return Page(DOCS / "made-up.md", text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("```sh\ntrue\nfalse\necho after\n```\n", "made-up.md:1 failed", id="a command fails"),
        pytest.param("```sh\nfalse | cat\n```\n", "made-up.md:1 failed", id="a part of a pipe fails"),
        pytest.param(
            "```sh\necho one two\n```\n\n<!-- prints -->\n```\none three\n```\n",
            "not printed: 'one three'",
            id="prints",
        ),
        pytest.param(
            "<!-- terminal server, ready: `ready` -->\n```sh\necho no\n```\n",
            "never said 'ready'",
            id="never ready",
        ),
    ],
)
def test_a_block_that_does_not_do_what_the_page_says_fails(
    text: str, said: str, tmp_path: Path, shared_data: Path
) -> None:
    with pytest.raises(Failed, match=said):
        play([page_of(text)], tmp_path, shared_data)


STORY = """
<!-- free ports: 8443 -->

```sh
mkdir -p out/first && cd out/first
export NAME=ada
WITHIN=8443
```

```yaml title="plan.yaml"
a: "$NAME"
```

<!-- terminal server, ready: `ready at 8443` -->
```sh
echo "ready at $(cat plan.yaml | wc -l)8443"; echo ready at 8443; sleep 600
```

<!-- not run: a person -->
```sh
false
```

<!-- again until: `third` -->
```sh
echo x >>times; test "$(wc -l <times)" = 3 && echo third
```

```sh
echo "$NAME at $WITHIN in $(basename "$PWD"): $(cat plan.yaml)"
test "$WITHIN" -gt 9999
```

<!-- prints -->
```
ada at … in first: a: "$NAME"
```
"""


def test_a_story_goes_on_from_block_to_block_and_leaves_nothing_behind(
    tmp_path: Path, shared_data: Path
) -> None:
    play([page_of(STORY)], tmp_path, shared_data)
    left = [path for path in Path("/proc").glob("[0-9]*/cwd") if _stands_in(path, tmp_path)]
    assert left == []
    assert (tmp_path / "checkout/out/first/plan.yaml").read_text() == 'a: "$NAME"\n'


def _stands_in(link: Path, folder: Path) -> bool:
    try:
        return link.readlink().is_relative_to(folder)
    except OSError:
        return False
