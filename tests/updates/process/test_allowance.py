"""What anybody may bring about: some of it at once, and then little, however long he goes on."""

from edge_runtime.updates.process.allowance import Allowance
from tests.updates.machine.works import at


def test_a_few_at_once_and_then_one_in_a_while() -> None:
    allowance = Allowance(3, 30_000)
    assert [allowance.take(at(0)) for _ in range(5)] == [True, True, True, False, False]
    assert [allowance.take(at(second)) for second in (10, 20, 31, 32)] == [False, False, True, False]
    granted = sum(allowance.take(at(second)) for second in range(100, 400))
    assert granted <= 3 + 10 + 1
    assert [allowance.take(at(1000)) for _ in range(4)] == [True, True, True, False], "no more than at first"
