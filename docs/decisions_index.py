"""The page docs/decisions/index.md: one line per decision record."""

import re
from pathlib import Path

DECISIONS = Path(__file__).resolve().parent / "decisions"

HEAD = """\
# Decisions

Each record says what was decided where more than one way was open: context, decision, consequences, and what was
measured. A record is not changed when the decision is; a later one replaces it and says so.

"""


def decisions_page() -> str:
    """The list, by number."""
    lines = []
    for path in sorted(DECISIONS.glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        number, _, text = (
            title.replace(":", "", 1).partition(" ") if title[4:5] == ":" else title.partition(" ")
        )
        lines.append(f"- [{number} {re.sub(r'[][]', '', text)}]({path.name})")
    return HEAD + "\n".join(lines) + "\n"
