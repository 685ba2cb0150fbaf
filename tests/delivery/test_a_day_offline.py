"""A day without a link, compressed: the queue fills up, and what it keeps is what the eviction rules say."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from edge_runtime.outbox import NotAccepted, QueuedEntry, Submission
from sim.road import Device, Server, ask
from tests.rigs.roads import ONE, a_device, assert_sums, put, status, wait_for
from tests.rigs.submitter import approved

_QUOTA = 512 * 1024
_EVENTS = 1500
_FIRST_SECOND = 4 * 64
"""One bundle of at most 64 events, and some more where a busy machine lets two seconds arrive as one."""


def offer(device: Device, events: Sequence[Submission]) -> list[Submission]:
    """Hand over; those that were accepted. The others found the queue full of what is as severe or severer."""
    client, accepted = device.client(), []
    try:
        for start in range(0, len(events), 100):
            part = events[start : start + 100]
            for event, result in zip(part, client.put(part), strict=True):
                assert result.accepted or result.reason is NotAccepted.FULL
                if result.accepted:
                    accepted.append(event)
    finally:
        client.close()
    return accepted


def entries(device: Device) -> list[QueuedEntry]:
    client = device.client()
    try:
        return client.queued(1000)
    finally:
        client.close()


def assert_kept(accepted: Sequence[Submission], queued: set[bytes]) -> None:
    """Of each severity the newest, and nothing less severe than what was given up."""
    kept = Counter(event.severity for event in accepted if event.key in queued)
    came = Counter(event.severity for event in accepted)
    assert kept[3] == came[3]
    for severity in came:
        keys = [event.key for event in accepted if event.severity == severity]
        assert set(keys[len(keys) - kept[severity] :]) == queued & set(keys), f"not the newest of {severity}"
        if kept[severity] < came[severity]:
            # bytes that the last eviction left over may hold one that is less severe
            assert sum(kept[less] for less in range(severity)) <= 1, (severity, kept)


@pytest.mark.parametrize("server", ONE, indirect=True)
def test_the_severest_and_newest_are_kept_and_the_rest_is_accounted_for(
    server: Server, name: str, tmp_path: Path
) -> None:
    limits = {"quota_bytes": _QUOTA, "reserve_share": 0.1}
    with a_device(server, tmp_path / name, name, limits=limits) as device:
        online = put(device, [approved(3)])
        assert wait_for(lambda: (found := status(device)) is not None and found.ledger.delivered == 1)
        device.cable.cut()
        brief = put(device, [approved(3, ttl_s=0.5) for _ in range(10)])
        assert wait_for(lambda: (found := status(device)) is not None and found.ledger.expired == 10)
        # one in ten is critical; every hour of the day has all kinds
        offered = [approved(3 if number % 10 == 0 else number % 3) for number in range(_EVENTS)]
        accepted = offer(device, offered)
        full = status(device)
        assert full is not None
        assert full.ledger.balances
        assert full.ledger.evicted > 0
        assert full.bytes <= _QUOTA
        queued = {entry.key for entry in entries(device)}
        assert_kept(accepted, queued)

        device.cable.heal()
        sums = assert_sums(server, device, [*online, *brief, *(event.key for event in accepted)])
        ledger = sums.device.ledger
        assert sums.stored.in_first_second(after=len(online)) <= _FIRST_SECOND, "the queue came in one wave"
        assert set(sums.stored.keys) == queued | set(online)
        assert (ledger.expired, ledger.evicted) == (10, full.ledger.evicted)
        (line,) = sums.balance
        assert line.high == ledger.accepted
        assert line.settled == {"delivered": ledger.delivered, "expired": 10, "evicted": ledger.evicted}
        refused = len(offered) - len(accepted)
        assert sum(sums.device.not_accepted.values()) == refused

        # what an operator sees without being told where to look
        shown = ask("fleet", "health", "--data", str(server.data))
        row = next(text for text in shown.splitlines() if text.split()[:1] == [name]).split()
        assert row[1:] == [
            str(number) for number in (ledger.accepted, 0, ledger.delivered, 10, ledger.evicted, 0, 0)
        ]
        health = server.fleet("device", "show", name)["health"]
        assert health["gate"]["not_accepted"] == refused
