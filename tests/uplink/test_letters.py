"""Letters: the newest of each kind, answers until they arrived."""

from edge_runtime.protocol.topics import Channel
from edge_runtime.uplink.letters import MAX_ANSWERS, Letter, Letters


def test_a_newer_letter_takes_the_place_of_an_older_one() -> None:
    letters = Letters()
    letters.put(Letter(Channel.HEALTH, b"1"))
    letters.put(Letter(Channel.HEALTH, b"2"))
    found = letters.next()
    assert found == Letter(Channel.HEALTH, b"2")
    letters.sent(found, 1)
    assert letters.next() is None


def test_presence_goes_first_then_sync_outcomes_and_answers() -> None:
    letters = Letters()
    for channel in (Channel.HEALTH, Channel.RESULT, Channel.OUTCOME, Channel.SYNC, Channel.PRESENCE):
        letters.put(Letter(channel, channel.value.encode()))
    order: list[Channel] = []
    while (letter := letters.next()) is not None:
        letters.sent(letter, len(order))
        order.append(letter.channel)
    assert order == [Channel.PRESENCE, Channel.SYNC, Channel.OUTCOME, Channel.RESULT, Channel.HEALTH]


def test_answers_are_kept_until_the_broker_has_them() -> None:
    letters = Letters()
    for text in (b"a", b"b", b"c"):
        letters.put(Letter(Channel.RESULT, text))
    for mid in (1, 2):
        letter = letters.next()
        assert letter is not None
        letters.sent(letter, mid)
    letters.acknowledged(1)
    letters.put(Letter(Channel.HEALTH, b"old"))
    letters.disconnected()
    left: list[bytes] = []
    while (letter := letters.next()) is not None:
        letters.sent(letter, 10 + len(left))
        left.append(letter.payload)
    assert left == [b"b", b"c"]


def test_too_many_answers_lose_the_oldest_and_count_it() -> None:
    letters = Letters()
    for number in range(MAX_ANSWERS + 3):
        letters.put(Letter(Channel.RESULT, bytes([number])))
    assert letters.lost_answers == 3
    first = letters.next()
    assert first is not None
    assert first.payload == b"\x03"
