"""Window, credit, and the ramp after a connect."""

import pytest

from edge_runtime.clock import NS_PER_S
from edge_runtime.uplink.pacing import Pacer

S = NS_PER_S


@pytest.mark.parametrize(
    ("own", "receive_maximum", "credit", "window"),
    [
        (20, 65_535, 20, 20),
        (20, 10, 20, 9),
        (20, 1, 20, 1),
        (20, 65_535, 3, 3),
        (5, 100, 100, 5),
        (99, 500, 500, 20),
    ],
)
def test_the_window_is_the_least_of_all(own: int, receive_maximum: int, credit: int, window: int) -> None:
    pacer = Pacer(own)
    pacer.connected(receive_maximum, 0)
    pacer.receipt(credit)
    assert pacer.window == window


def test_nothing_goes_before_the_server_answered_in_this_session() -> None:
    pacer = Pacer()
    pacer.connected(100, 0)
    assert pacer.window == 0
    pacer.receipt(20)
    assert pacer.window == 20
    pacer.connected(100, S)
    assert pacer.window == 0


def test_credit_zero_stops() -> None:
    pacer = Pacer()
    pacer.connected(100, 0)
    pacer.receipt(0)
    assert pacer.window == 0


def test_the_ramp_doubles_each_second_until_the_window_limits() -> None:
    pacer, now, sent = Pacer(), 0, []
    pacer.connected(100, 0)
    for second in range(8):
        count = 0
        end = (second + 1) * S
        while now < end:
            pacer.receipt(20)
            ready = pacer.ready_ns(now)
            if ready > now:
                now = min(ready, end)
                continue
            if count >= 1000:
                now = end
                break
            pacer.sent(now)
            count += 1
        sent.append(count)
    assert sent[0] == 1
    assert sent[:5] == sorted(sent[:5])
    assert sent[1] in (1, 2, 3)
    assert sent[2] in (3, 4, 5)
    assert sent[3] in (7, 8, 9)
    assert sent[4] in (15, 16, 17)
    assert sent[6] == 1000


def test_the_ramp_does_not_climb_without_answers() -> None:
    pacer, now = Pacer(), 0
    pacer.connected(100, 0)
    pacer.receipt(20)
    pacer.sent(now)
    pacer.ready_ns(2 * S)  # the answer of before counts once
    pacer.sent(2 * S)
    assert pacer.ready_ns(3 * S) == 2 * S + S // 2
    assert pacer.ready_ns(30 * S) == 2 * S + S // 2


def test_without_a_ramp_all_go_at_once() -> None:
    pacer = Pacer(ramp=False)
    pacer.connected(100, 0)
    pacer.receipt(20)
    pacer.sent(0)
    assert pacer.ready_ns(0) == 0
