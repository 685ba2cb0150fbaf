"""What goes when room is needed: a table, and what must hold for any store."""

import hypothesis
import hypothesis.strategies as st

from edge_runtime.updates.store.quota import Eviction, Held, to_evict

SIZES = {"w1": 100, "w2": 100, "l1": 1, "l2": 1, "loose": 10}
OLD = Held("old", frozenset({"w1", "l1"}), 1)
MIDDLE = Held("middle", frozenset({"w1", "l2"}), 2)
NEW = Held("new", frozenset({"w2"}), 3)
ALL = [NEW, OLD, MIDDLE]


def evicted(short: int | None, *needed: str, wanted: tuple[str, ...] = ()) -> Eviction:
    return to_evict(ALL, SIZES, needed=needed, wanted=wanted, short=short)


def test_content_of_no_release_goes_first() -> None:
    assert evicted(5) == Eviction((), ("loose",), 10)


def test_the_oldest_release_next_and_only_what_it_alone_needs() -> None:
    assert evicted(11) == Eviction(("old",), ("l1", "loose"), 11)


def test_shared_weights_go_with_the_last_release_that_has_them() -> None:
    assert evicted(12) == Eviction(("old", "middle"), ("l1", "l2", "loose", "w1"), 112)


def test_what_is_needed_stays() -> None:
    assert evicted(500, "middle") == Eviction(("old", "new"), ("l1", "loose", "w2"), 111)
    assert evicted(None, "old", "new", "middle") == Eviction((), ("loose",), 10)


def test_what_is_wanted_for_a_release_to_come_stays() -> None:
    assert evicted(None, wanted=("loose", "w1")) == Eviction(
        ("old", "middle", "new"), ("l1", "l2", "w2"), 102
    )


@hypothesis.given(
    blobs=st.lists(st.frozensets(st.sampled_from("abcdefgh")), max_size=6),
    needed=st.sets(st.integers(0, 5)),
    wanted=st.sets(st.sampled_from("abcdefgh")),
    short=st.none() | st.integers(0, 60),
)
def test_nothing_needed_ever_goes_and_nothing_more_than_it_takes(
    blobs: list[frozenset[str]], needed: set[int], wanted: set[str], short: int | None
) -> None:
    held = [Held(str(number), content, number) for number, content in enumerate(blobs)]
    sizes = {name: 1 + ord(name) - ord("a") for name in "abcdefgh"}
    names = {str(number) for number in needed}
    plan = to_evict(held, sizes, needed=names, wanted=wanted, short=short)
    assert not set(plan.releases) & names
    staying = frozenset().union(*(one.blobs for one in held if one.sha256 not in plan.releases))
    assert not set(plan.blobs) & (staying | wanted)
    assert set(plan.blobs) == set(sizes) - staying - wanted, "nothing is left that nobody needs"
    assert plan.freed == sum(sizes[blob] for blob in plan.blobs)
    assert [int(one) for one in plan.releases] == sorted(int(one) for one in plan.releases)
    if short is not None and plan.releases:
        fewer = frozenset().union(*(one.blobs for one in held if one.sha256 not in plan.releases[:-1]))
        assert sum(sizes[blob] for blob in set(sizes) - fewer - wanted) < short
