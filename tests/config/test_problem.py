import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.config import InvalidConfig, Problem, format_location
from edge_runtime.config.problem import MAX_SHOWN


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ((), ""),
        (("cameras", "dock", "rules", 2, "polygon"), "cameras.dock.rules[2].polygon"),
        (("cameras", "7", "model"), "cameras.7.model"),
        (("cameras", "front door", "model"), 'cameras["front door"].model'),
        (("cameras", "a.b", 0), 'cameras["a.b"][0]'),
        (("", "x"), '[""].x'),
        (('say "hi"\n',), '["say \\"hi\\"\\n"]'),
        (("küche",), '["küche"]'),
        (("a\u2028b\x85\ud800",), '["a\\u2028b\\u0085\\ud800"]'),
    ],
)
def test_locations_as_text(location: tuple[str | int, ...], text: str) -> None:
    assert format_location(location) == text


_LOCATION = st.lists(st.one_of(st.text('a0.[]"\\ \n', max_size=3), st.integers(0, 20)), max_size=3)


@given(_LOCATION, _LOCATION)
def test_no_two_places_have_the_same_text(one: list[str | int], other: list[str | int]) -> None:
    assert (format_location(one) == format_location(other)) == (one == other)


@given(st.lists(st.one_of(st.text(st.characters()), st.integers(0, 10**6)), max_size=6))
def test_every_location_stays_on_its_line(location: list[str | int]) -> None:
    assert format_location(location).isprintable()


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (Problem("is empty"), "f.yaml: is empty"),
        (Problem("is bad", line=3), "f.yaml:3: is bad"),
        (Problem("is bad", ("a", 0)), "f.yaml: a[0]: is bad"),
        (Problem("is bad", ("a", "b"), 12), "f.yaml:12: a.b: is bad"),
    ],
)
def test_one_line_per_problem(problem: Problem, line: str) -> None:
    assert problem.show("f.yaml") == line


def test_one_problem_is_the_whole_text_and_several_are_counted() -> None:
    one = InvalidConfig("f.yaml", [Problem("is empty")])
    assert str(one) == "f.yaml: is empty"
    assert one.exit_code == 2
    two = InvalidConfig("f.yaml", [Problem("a"), Problem("b")])
    assert str(two).splitlines() == ["f.yaml: 2 problems", "f.yaml: a", "f.yaml: b"]


def test_a_hopeless_file_is_not_listed_to_its_end() -> None:
    error = InvalidConfig("f.yaml", [Problem(str(number)) for number in range(1000)])
    assert len(error.lines()) == MAX_SHOWN + 1
    assert error.lines()[-1] == f"f.yaml: and {1000 - MAX_SHOWN} more problems"
