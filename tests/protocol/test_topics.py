"""Topics: one device each, no wildcard can hide in one."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.protocol import Channel, Topic
from edge_runtime.protocol.topics import DEVICE_PATTERN, events_channel

DEVICES = st.from_regex(re.compile(DEVICE_PATTERN), fullmatch=True)


@given(DEVICES, st.sampled_from(list(Channel)))
def test_what_is_written_is_read(device: str, channel: Channel) -> None:
    topic = Topic(device.rstrip("\n"), channel)
    assert Topic.parse(str(topic)) == topic
    assert str(topic).count("/") <= 7
    assert not set(str(topic)) & set("+#. \n\0$")


@given(st.text(max_size=120))
def test_any_text_is_a_topic_of_ours_or_none(text: str) -> None:
    topic = Topic.parse(text)
    assert topic is None or str(topic) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fleet/v1//up/ev/0",
        "fleet/v1/dock/up/ev/4",
        "fleet/v1/dock/up/ev/0/",
        "fleet/v1/dock/up/ev/0\n",
        "/fleet/v1/dock/up/ev/0",
        "fleet/v2/dock/up/ev/0",
        "fleet/v1/+/up/ev/0",
        "fleet/v1/dock/#",
        "fleet/v1/Dock/up/ev/0",
        "fleet/v1/dock.one/up/ev/0",
        "fleet/v1/-dock/up/ev/0",
        "fleet/v1/dock/up",
        "fleet/v1/dock/down/cmd/../up/ev/0",
        "fleet/v1/" + "a" * 64 + "/presence",
        "$SYS/broker",
    ],
)
def test_these_are_none(text: str) -> None:
    assert Topic.parse(text) is None


def test_severities_have_channels_of_their_own() -> None:
    channels = [events_channel(rank) for rank in range(4)]
    assert len(set(channels)) == 4
    assert all(channel.is_events for channel in channels)
    assert [channel for channel in Channel if channel.is_events] == channels
    with pytest.raises(ValueError, match="up/ev/4"):
        events_channel(4)


def test_up_and_down_are_apart() -> None:
    """The broker's permissions are `up/#` and `presence` to write, `down/#` to read: nothing is in both."""
    for channel in Channel:
        assert channel.value.split("/")[0] in ("up", "down", "presence")
