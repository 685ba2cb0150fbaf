"""Writes the pages that are made from the code: configuration.md, cli.md, fleet-cli.md, and the list of decisions.

    python -m docs.generate_reference           writes them
    python -m docs.generate_reference --check   leaves with 1 if one of them is stale

A test runs the check, so no page can drift from the code.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from docs.cli_reference import cli_page, fleet_cli_page
from docs.configuration_reference import configuration_page
from docs.decisions_index import decisions_page

HERE = Path(__file__).resolve().parent
MARK = "<!-- Written by docs/generate_reference.py. Do not edit. -->\n\n"

PAGES: dict[str, Callable[[], str]] = {
    "configuration.md": configuration_page,
    "cli.md": cli_page,
    "fleet-cli.md": fleet_cli_page,
    "decisions/index.md": decisions_page,
}


def main(arguments: list[str]) -> int:
    """Write the pages, or say which are stale."""
    stale = []
    for name, page in PAGES.items():
        path, text = HERE / name, MARK + page()
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in arguments:
                path.write_text(text, encoding="utf-8")
    if "--check" in arguments and stale:
        sys.stderr.write(f"stale: {', '.join(stale)}; run python -m docs.generate_reference\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
