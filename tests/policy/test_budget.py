"""The book of budgets: an hour that slides, repeats, revisions, and a bound that holds rather than forgets."""

from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.policy import BudgetBook, Known, Usage

MINUTE = 60 * 1_000_000_000
HOUR = 60 * MINUTE
WHERE = ("dock-1", "fall")


def test_an_hour_slides_and_counts_to_its_careful_side() -> None:
    book = BudgetBook()
    book.sent("p", WHERE, "a", 100, 0)
    book.sent("p", WHERE, "b", 50, 30 * MINUTE)
    now = 59 * MINUTE
    assert book.usage(["p"], WHERE, "c", now)["p"] == Usage(2, 150, now - 30 * MINUTE, Known.NEW)
    assert book.usage(["p"], WHERE, "c", 61 * MINUTE)["p"].events == 1
    assert book.usage(["p"], WHERE, "c", 92 * MINUTE)["p"].events == 0


@given(st.lists(st.integers(0, 3 * HOUR), min_size=1, max_size=80))
def test_it_never_counts_less_than_the_last_hour_and_at_most_a_minute_more(times: list[int]) -> None:
    book, times = BudgetBook(), sorted(times)
    for number, time in enumerate(times):
        book.sent("p", WHERE, str(number), 1, time)
    now = times[-1]
    usage = book.usage(["p"], WHERE, "x", now)["p"]
    least = sum(1 for time in times if time > now - HOUR)
    most = sum(1 for time in times if time > now - HOUR - MINUTE)
    assert least <= usage.events <= most
    assert usage.evidence_bytes == usage.events


def test_rules_of_two_cameras_and_two_permits_are_counted_apart() -> None:
    book = BudgetBook()
    book.sent("p", WHERE, "a", 1, 0)
    usage = book.usage(["p", "q"], ("dock-2", "fall"), "b", 1)
    assert usage == {"p": Usage(), "q": Usage()}


def test_revisions_are_known_and_the_quiet_time_runs_from_the_last_happening() -> None:
    book = BudgetBook()
    book.sent("p", WHERE, "a", 0, 0)
    book.coalesced("p", WHERE, "b", 10)
    book.sent("p", WHERE, "a", 0, 20)  # its end, which starts no new quiet time
    assert book.usage(["p"], WHERE, "a", 30)["p"].known is Known.SENT
    assert book.usage(["p"], WHERE, "b", 30)["p"].known is Known.COALESCED
    assert book.usage(["p"], WHERE, "c", 30)["p"].since_sent_ns == 30


def test_a_time_that_goes_backwards_gives_no_usage() -> None:
    book = BudgetBook()
    assert book.usage(["p"], WHERE, "a", 100) == {"p": Usage()}
    assert book.usage(["p"], WHERE, "a", 99) == {}


def test_a_full_book_gives_no_usage_to_the_next_rule_until_an_old_one_is_an_hour_past() -> None:
    book = BudgetBook(rules=3)
    for number in range(3):
        book.sent("p", ("dock-1", f"r{number}"), "a", 0, number)
    assert book.usage(["p"], ("dock-1", "r3"), "a", MINUTE) == {}
    assert "p" in book.usage(["p"], ("dock-1", "r0"), "a", MINUTE)
    assert book.usage(["p"], ("dock-1", "r3"), "a", 62 * MINUTE) == {"p": Usage()}


def test_it_stays_small() -> None:
    book = BudgetBook()
    for number in range(20_000):
        book.sent("p", ("dock-1", f"r{number % 10_000}"), str(number), 1, number * MINUTE // 100)
    assert len(book) <= 10_001
