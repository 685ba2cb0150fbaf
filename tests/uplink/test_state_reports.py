"""State reports: everything on a connect, news at once, terminal ones until settled, one message on its way."""

import random
from collections.abc import Sequence

from edge_runtime.clock import NS_PER_S
from edge_runtime.protocol.update_wire import StateReports
from edge_runtime.uplink.state_reports import MOST_BYTES, MOST_REPORTS, StateReporter
from edge_runtime.uplink.update_files import MOST_HELD, FoundReports, SealedReport


def _report(number: int, *, terminal: bool = False, size: int = 20) -> SealedReport:
    return SealedReport(number, terminal, f"{number:06d}".encode() + b"x" * (size - 6))


class Desk:
    """A reporter whose messages are acknowledged by hand."""

    def __init__(self) -> None:
        self.reporter = StateReporter("dev-1", 10.0, 40.0, random.Random(1))
        self.mid = 0

    def found(self, reports: Sequence[SealedReport], *others: int) -> None:
        """What lies on the disk: `others` are terminal ones that are not in memory."""
        terminal = sorted({*others, *(report.number for report in reports if report.terminal)})
        self.reporter.found(FoundReports(tuple(reports), tuple(terminal)))

    def send(self, now_s: float = 0.0, *, terminal_only: bool = False) -> list[int]:
        """Numbers of the next message, read out of its payload; empty where there is none."""
        found = self.reporter.message(int(now_s * NS_PER_S), terminal_only=terminal_only)
        if found is None:
            return []
        payload, numbers = found
        record = StateReports.decode(payload)
        assert record.device == "dev-1"
        assert [int(sealed[:6]) for sealed in record.reports] == list(numbers)
        self.mid += 1
        self.reporter.sent(self.mid, numbers)
        return list(numbers)

    def puback(self, now_s: float = 0.0, *, failed: bool = False) -> list[int]:
        return list(self.reporter.acknowledged(self.mid, int(now_s * NS_PER_S), failed=failed))


def test_nothing_goes_up_without_a_session() -> None:
    desk = Desk()
    desk.found([_report(1)])
    assert desk.send() == []
    assert desk.reporter.wake_ns() is None
    desk.reporter.connected()
    assert desk.reporter.wake_ns() == 0
    assert desk.send() == [1]


def test_one_message_is_on_its_way_and_progress_is_done_with_the_brokers_word() -> None:
    desk = Desk()
    desk.reporter.connected()
    desk.found([_report(1), _report(2)])
    assert desk.send() == [1, 2]
    desk.found([_report(1), _report(2), _report(3)])
    assert desk.send() == []
    assert desk.reporter.wake_ns() is None
    assert desk.puback() == [1, 2]
    desk.found([_report(1), _report(2), _report(3)])  # their files are not deleted yet
    assert desk.send() == [3]


def test_another_messages_acknowledgement_changes_nothing() -> None:
    desk = Desk()
    desk.reporter.connected()
    desk.found([_report(1)])
    desk.send()
    assert desk.reporter.acknowledged(desk.mid + 1, 0, failed=False) == ()
    assert desk.send() == []


def test_a_terminal_report_goes_again_until_its_file_is_gone() -> None:
    desk = Desk()
    desk.reporter.connected()
    terminal = _report(5, terminal=True)
    desk.found([terminal])
    assert desk.send() == [5]
    assert desk.puback() == []
    assert desk.send(9.9) == []
    waits = []
    now = 0.0
    for _ in range(4):
        wake = desk.reporter.wake_ns()
        assert wake is not None
        waits.append(wake / NS_PER_S - now)
        now = wake / NS_PER_S
        desk.found([terminal])  # a look at the folder does not make it news
        assert desk.send(now) == [5]
        assert desk.puback(now) == []
    for wait, least in zip(waits, [10, 20, 40, 40], strict=True):
        assert least <= wait <= 1.25 * least
    desk.found([])
    assert desk.reporter.wake_ns() is None
    assert desk.send(now + 100) == []


def test_a_new_session_sends_everything_again_at_once() -> None:
    desk = Desk()
    desk.reporter.connected()
    desk.found([_report(1), _report(2, terminal=True)])
    assert desk.send() == [1, 2]
    desk.reporter.disconnected()
    assert desk.puback() == []  # of the session before
    assert desk.send() == []
    desk.reporter.connected()
    assert desk.send() == [1, 2]


def test_what_the_broker_refused_waits_and_stays() -> None:
    desk = Desk()
    desk.reporter.connected()
    desk.found([_report(1)])
    desk.send()
    assert desk.puback(failed=True) == []
    assert desk.send(29.0) == []
    assert desk.send(30.0) == [1]


def test_when_the_days_bytes_are_spent_progress_waits() -> None:
    desk = Desk()
    desk.reporter.connected()
    desk.found([_report(1), _report(2, terminal=True), _report(3)])
    assert desk.send(terminal_only=True) == [2]
    desk.puback()
    assert desk.send(terminal_only=True) == []
    wake = desk.reporter.wake_ns(terminal_only=True)
    assert wake is not None
    assert wake > 0
    assert desk.reporter.wake_ns() == 0
    assert desk.send() == [1, 3]


def test_messages_are_bounded_and_terminal_reports_go_first() -> None:
    desk = Desk()
    desk.reporter.connected()
    reports = [_report(number, terminal=number >= 20) for number in range(1, 41)]
    desk.found(reports)
    sent = []
    while numbers := desk.send():
        assert numbers == sorted(numbers)
        assert len(numbers) <= MOST_REPORTS
        sent.append(numbers)
        desk.puback()
    assert sent[0] == list(range(20, 36))
    assert sorted(number for numbers in sent for number in numbers) == list(range(1, 41))


def test_large_reports_share_a_message_only_within_its_bytes() -> None:
    desk = Desk()
    desk.reporter.connected()
    desk.found([_report(1, size=MOST_BYTES // 2), _report(2, size=MOST_BYTES), _report(3)])
    assert desk.send() == [1]
    desk.puback()
    assert desk.send() == [2]
    desk.puback()
    assert desk.send() == [3]


def test_reports_that_are_never_settled_keep_no_newer_one_from_its_way() -> None:
    """A server that lost what it knew settles none of the old ones: the oldest 64 alone were ever sent."""
    desk, disk = Desk(), {number: _report(number, terminal=True) for number in range(1, 3 * MOST_HELD)}
    desk.reporter.connected()
    heard: set[int] = set()
    now, held = 0.0, list(range(1, MOST_HELD + 1))
    for _ in range(3 * MOST_HELD):
        desk.found([disk[number] for number in held], *disk)
        held = list(desk.reporter.wanted())
        desk.found([disk[number] for number in held], *disk)
        sent = desk.send(now)
        if not sent:
            break
        heard.update(sent)
        desk.puback(now)
    assert heard == disk.keys()
    desk.found([disk[number] for number in held], *disk)
    assert desk.send(now) == [], "and what was sent waits, whether it is in memory or not"
    wake = desk.reporter.wake_ns()
    assert wake is not None
    assert wake > 9 * NS_PER_S
    disk[1000] = _report(1000, terminal=True)
    desk.found([disk[number] for number in held], *disk)
    assert 1000 in desk.reporter.wanted()


def test_what_is_all_in_memory_is_not_asked_for() -> None:
    desk = Desk()
    desk.found([_report(number, terminal=True) for number in range(1, MOST_HELD + 1)])
    assert desk.reporter.wanted() == ()
