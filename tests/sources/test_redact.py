import logging

import pytest

from edge_runtime.config.source import GStreamerSource, HttpSource, RtspSource, SourceConfig, V4l2Source
from edge_runtime.sources.redact import (
    name_of,
    register_credentials,
    scheme_of,
    with_user,
    without_credentials,
)


@pytest.mark.parametrize(
    ("text", "secret", "kept"),
    [
        ("open rtsp://bob:hunter22@10.0.0.9:554/live failed", "hunter22", "10.0.0.9:554/live"),
        ("rtsp://bob:p@ss@w0rd@10.0.0.9/live", "ss@w0rd", "10.0.0.9/live"),
        ("rtsp://bob:sl/ash99@10.0.0.9/live", "sl/ash99", "10.0.0.9/live"),
        ("http://10.0.0.9/cgi?user=bob&password=hunter22&x=1", "hunter22", "x=1"),
        ("http://10.0.0.9/v?token=abcdef123", "abcdef123", "10.0.0.9/v"),
        ("http://proxy/?u=rtsp%3A%2F%2Fbob%3Ahunter22%40cam%2Flive", "hunter22", "cam%2Flive"),
        ("rtspsrc location=rtsp://bob:hunter22@cam/live ! decodebin", "hunter22", "decodebin"),
        ("rtspsrc location=rtsp://cam/ user-id=bob user-pw=hunter22 ! x", "hunter22", "rtsp://cam/"),
        ('rtspsrc user-pw="two words" ! x', "two words", "! x"),
        ("souphttpsrc proxy-pw=hunter22 location=http://cam ! x", "hunter22", "http://cam"),
        ("rtspsrc user-pw=odd&hunter;22 location=x ! y", "hunter;22", "location=x ! y"),
        ("somesrc password=(string)hunter22 ! x", "hunter22", "! x"),
    ],
)
def test_credentials_go_and_the_rest_stays(text: str, secret: str, kept: str) -> None:
    shown = without_credentials(text)
    assert secret not in shown
    assert kept in shown


@pytest.mark.parametrize(
    "text",
    ["/dev/video0 gave no picture", "clip.mp4 ends after 3 of 9 frames", "rtsp://10.0.0.9/live", "a@b.c"],
)
def test_what_holds_no_credentials_is_left_alone(text: str) -> None:
    assert without_credentials(text) == text


CONFIGS: list[tuple[SourceConfig, tuple[str, ...]]] = [
    (RtspSource(kind="rtsp", url="rtsp://operator7:geheim-44@cam/live"), ("geheim-44", "operator7")),
    (
        RtspSource(kind="rtsp", url="rtsp://cam/live", username="operator7", password="zu/ge@heim"),
        ("zu/ge@heim",),
    ),
    (HttpSource(kind="http", url="http://cam/v?token=abcdef-99"), ("abcdef-99",)),
    (
        GStreamerSource(
            kind="gstreamer", pipeline='rtspsrc location=rtsp://cam user-pw="gst geheim" ! decodebin'
        ),
        ("gst geheim",),
    ),
    (
        GStreamerSource(kind="gstreamer", pipeline="rtspsrc location=rtsp://a:b64geheim@cam ! decodebin"),
        ("b64geheim",),
    ),
]


@pytest.mark.parametrize(("config", "secrets"), CONFIGS)
def test_no_name_no_repr_and_no_registered_text_shows_a_secret(
    config: SourceConfig, secrets: tuple[str, ...]
) -> None:
    register_credentials(config)
    for secret in secrets:
        assert secret not in name_of(config)
        assert secret not in repr(config)
        if secret != "abcdef-99":
            # Also where a library repeats it outside of any URL.
            assert secret not in without_credentials(f"authentication of {secret} failed")


def test_names_say_where() -> None:
    assert name_of(V4l2Source(kind="v4l2", device="/dev/video3")) == "/dev/video3"
    assert "cam:8554/live" in name_of(RtspSource(kind="rtsp", url="rtsp://u:pass@cam:8554/live"))


@pytest.mark.parametrize(
    ("url", "user", "password", "expected"),
    [
        ("rtsp://cam:554/x?a=1", "us er", "p@s:s/ö%", "rtsp://us%20er:p%40s%3As%2F%C3%B6%25@cam:554/x?a=1"),
        ("rtsp://old:pw@cam/x", "new", "one", "rtsp://new:one@cam/x"),
        ("rtsp://bob@cam/x", None, "one", "rtsp://bob:one@cam/x"),
        ("http://cam", "bob", None, "http://bob@cam"),
        ("http://bob:pw@cam", None, None, "http://bob:pw@cam"),
    ],
)
def test_credentials_are_put_into_a_url_escaped(
    url: str, user: str | None, password: str | None, expected: str
) -> None:
    assert with_user(url, user, password) == expected


def test_schemes() -> None:
    assert scheme_of("RTSP://cam") == "rtsp"
    assert scheme_of("clip.mp4") == ""
    assert scheme_of("http://[::1") == ""


def test_no_library_writes_urls_to_the_log() -> None:
    import av

    assert av.logging.get_level() is None
    assert not logging.getLogger("libav").handlers
