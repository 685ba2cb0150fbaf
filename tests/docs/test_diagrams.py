"""The diagrams are what their script draws, load nothing, and can be read in the dark."""

import xml.etree.ElementTree as ElementTree

import pytest

from docs.diagrams import DRAWN, PICTURES
from tests.rigs.doc_pages import DOCS


@pytest.mark.parametrize("name", DRAWN)
def test_a_diagram_is_what_the_script_draws(name: str) -> None:
    text = DRAWN[name]()
    assert (PICTURES / name).read_text(encoding="utf-8") == text, "run python -m docs.diagrams"
    root = ElementTree.fromstring(text)
    assert root.get("aria-label")
    assert "prefers-color-scheme:dark" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize("name", DRAWN)
def test_nothing_lies_beyond_the_edge(name: str) -> None:
    root = ElementTree.fromstring(DRAWN[name]())
    _, _, width, height = map(float, str(root.get("viewBox")).split())
    for box in root.iter("{http://www.w3.org/2000/svg}rect"):
        x, y, w, h = (float(str(box.get(key))) for key in ("x", "y", "width", "height"))
        assert min(x, y) >= 0
        assert x + w <= width
        assert y + h <= height
    for line in root.iter("{http://www.w3.org/2000/svg}polyline"):
        for place in str(line.get("points")).split():
            x, y = map(float, place.split(","))
            assert 0 <= x <= width
            assert 0 <= y <= height


@pytest.mark.parametrize("name", DRAWN)
def test_a_page_shows_it_with_words_for_who_does_not_see_it(name: str) -> None:
    shown = [page for page in DOCS.glob("*.md") if f"](img/{name})" in page.read_text(encoding="utf-8")]
    assert shown, name
    for page in shown:
        assert f"![](img/{name})" not in page.read_text(encoding="utf-8")
