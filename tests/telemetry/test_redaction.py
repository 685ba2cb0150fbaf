import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.telemetry import (
    assigned_secrets,
    redact,
    redact_patterns,
    register_secret,
    split_user_information,
)
from edge_runtime.telemetry.redaction import SECRETS, SecretRegistry


@pytest.fixture(autouse=True)
def _no_secrets() -> Iterator[None]:
    SECRETS.clear()
    yield
    SECRETS.clear()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rtsp://admin:pw@cam/1", "rtsp://***@cam/1"),
        ("rtsp://admin:p@ss@cam/1", "rtsp://***@cam/1"),
        ("rtsp://admin:p/a#s?s@cam/1", "rtsp://***@cam/1"),
        ("RTSPS://u@cam", "RTSPS://***@cam"),
        ("open 'rtsp://a:b@c/d': refused", "open 'rtsp://***@c/d': refused"),
        ("two http://a:b@c and http://d:e@f", "two http://***@c and http://***@f"),
        ("http://cam/cgi?user=admin&password=pw&channel=1", "http://cam/cgi?user=***&password=***&channel=1"),
        ("http://cam/?access_token=abc.def", "http://cam/?access_token=***"),
        (
            "rtspsrc location=x user-id=admin user-pw=secret ! decodebin",
            "rtspsrc location=x user-id=*** user-pw=*** ! decodebin",
        ),
        ('rtspsrc user-pw="a b\\"c" ! x', "rtspsrc user-pw=*** ! x"),
        ("rtspsrc user-pw=(string)abc ! x", "rtspsrc user-pw=*** ! x"),
        ("rtspsrc user-pw=a&b;c ! x", "rtspsrc user-pw=*** ! x"),
        ("http://cam/?my_password=pw&channel=1", "http://cam/?my_password=***&channel=1"),
        ("Authorization: Basic YWRtaW46cHc=", "Authorization: Basic ***"),
        ("http://cam/stream?channel=1&subtype=0", "http://cam/stream?channel=1&subtype=0"),
        ("plain text with a = b and mail@host", "plain text with a = b and mail@host"),
        ("", ""),
    ],
)
def test_patterns(text: str, shown: str) -> None:
    assert redact_patterns(text) == shown


@pytest.mark.parametrize(
    ("url", "user", "password", "host", "rest"),
    [
        ("rtsp://bob:pw@cam:554/x", "bob", "pw", "cam:554", "/x"),
        ("rtsp://bob:p@w@cam/x", "bob", "p@w", "cam", "/x"),
        ("rtsp://bob:p:w@cam?x", "bob", "p:w", "cam", "?x"),
        ("rtsp://bob@cam/x", "bob", None, "cam", "/x"),
        ("rtsp://@cam/x", "", None, "cam", "/x"),
        ("rtsp://cam/x?mail=a@b", None, None, "cam", "/x?mail=a@b"),
        ("rtsp://cam:554/x:y@z", None, None, "cam:554", "/x:y@z"),
        ("rtsp://u:p@cam/x@y", "u", "p", "cam", "/x@y"),
        ("rtsp://cam", None, None, "cam", ""),
        ("a@b.mp4", None, None, "", "a@b.mp4"),
    ],
)
def test_user_information_of_a_url(
    url: str, user: str | None, password: str | None, host: str, rest: str
) -> None:
    parts = split_user_information(url)
    assert (parts.user, parts.password, parts.host, parts.rest) == (user, password, host, rest)
    assert parts.scheme == ("rtsp" if "://" in url else "")


def test_a_split_url_does_not_show_its_password() -> None:
    assert "hunter22" not in repr(split_user_information("rtsp://bob:hunter22@cam/x?token=hunter22"))


def test_values_of_secret_properties_are_found() -> None:
    text = (
        'rtspsrc user-id=bob user-pw="two words" location=rtsp://cam/?token=abc&x=1 ! x password=(string)pw'
    )
    assert list(assigned_secrets(text)) == ["bob", "two words", "abc", "pw"]


_VISIBLE = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_characters="\"'<>\x7f"), min_size=1
)


@given(user=_VISIBLE, password=_VISIBLE.filter(lambda text: text.strip()))
def test_no_user_information_survives_however_it_is_spelt(user: str, password: str) -> None:
    if any(char.isspace() for char in user + password):
        return
    shown = redact_patterns(f"rtsp://{user}:{password}@camera.local/live")
    assert shown == "rtsp://***@camera.local/live"


def test_registered_values_go_in_every_spelling() -> None:
    register_secret("p@ss w/rd\n")
    assert redact("got p@ss w/rd here") == "got *** here"
    assert redact("x=p%40ss%20w%2Frd") == "x=***"


def test_a_short_secret_is_hidden_only_where_it_stands_alone() -> None:
    register_secret("ab")
    assert redact("ab") == "***"
    assert redact("cabin") == "cabin"


def test_an_empty_value_is_no_secret() -> None:
    register_secret("  ")
    assert redact("a  b") == "a  b"


def test_the_longer_of_two_secrets_goes_first() -> None:
    register_secret("hunter")
    register_secret("hunter2000")
    assert redact("x hunter2000 y") == "x *** y"


@given(st.lists(st.text(min_size=4), max_size=5), st.text())
def test_no_registered_value_is_ever_shown(values: list[str], around: str) -> None:
    registry = SecretRegistry()
    for value in values:
        registry.add(value)
    for value in values:
        stripped = value.strip()
        if len(stripped) >= 4 and stripped.replace("*", ""):
            assert stripped not in registry.redact(f"{around}\x00{value}\x00{around}").replace("***", "\x00")


def test_registering_from_several_threads_loses_nothing() -> None:
    registry = SecretRegistry()
    values = [f"secret-{number:04d}" for number in range(64)]
    threads = [threading.Thread(target=registry.add, args=(value,)) for value in values]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert registry.redact(" ".join(values)) == " ".join(["***"] * 64)
