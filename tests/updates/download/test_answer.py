"""What answers mean: a table of heads."""

import pytest

from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.download.answer import BadRange, Body, Setback, judge, retry_after_s
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.wants import Want

WANT = Want("a" * 64, 1000)
ETAG = f'"{"a" * 64}"'


def rest(status: int, **headers: str) -> Body:
    """The answer to a request for what follows the first 400 bytes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return judge(status, named, WANT, offset=400, ranged=True, etag=None)


def whole(status: int, **headers: str) -> Body:
    """The answer to a request for everything."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return judge(status, named, WANT, offset=0, ranged=False, etag=None)


def test_good_answers() -> None:
    assert whole(200) == Body(0, 1000, None)
    assert whole(200, content_length="1000", etag=ETAG) == Body(0, 1000, ETAG)
    assert rest(206, content_range="bytes 400-999/1000") == Body(0, 600, None)
    assert rest(206, content_range="bytes 400-999/1000", content_length="600") == Body(0, 600, None)
    assert rest(206, content_range="bytes 400-999/1000", content_encoding="Identity") == Body(0, 600, None)


def test_the_whole_where_the_rest_was_asked_for() -> None:
    """What is here is passed over."""
    assert rest(200) == Body(400, 1000, None)
    assert rest(200, content_length="1000") == Body(400, 1000, None)


@pytest.mark.parametrize(
    "content_range",
    [
        None,
        "",
        "bytes",
        "bytes 400-999",
        "bytes 400-999/*",
        "bytes 0-999/1000",
        "bytes 401-999/1000",
        "bytes 400-998/1000",
        "bytes 400-1000/1000",
        "bytes 999-400/1000",
        "bytes -400-999/1000",
        "bytes 4\u0660\u0660-999/1000",
        "items 400-999/1000",
        "bytes 400-999/1000, bytes 0-1/1000",
        "bytes 99999999999999999999-999/1000",
    ],
)
def test_a_part_that_is_not_what_was_asked_for(content_range: str | None) -> None:
    headers = {} if content_range is None else {"content_range": content_range}
    with pytest.raises(BadRange):
        rest(206, **headers)


def test_a_part_with_another_length_than_it_says() -> None:
    with pytest.raises(BadRange):
        rest(206, content_range="bytes 400-999/1000", content_length="10")


def test_a_part_of_other_content_than_the_beginning() -> None:
    headers = {"content-range": "bytes 400-999/1000", "etag": '"new"'}
    with pytest.raises(BadRange):
        judge(206, headers, WANT, offset=400, ranged=True, etag='"old"')
    assert judge(206, headers, WANT, offset=400, ranged=True, etag='"new"').etag == '"new"'


@pytest.mark.parametrize("etag", ['W/"weak"', "bare", '"with space"', '"' + "x" * 200 + '"', ""])
def test_only_strong_names_are_remembered(etag: str) -> None:
    assert whole(200, etag=etag).etag is None


@pytest.mark.parametrize(
    ("status", "headers", "code"),
    [
        (404, {}, UpdateCode.DOWNLOAD_NOT_FOUND),
        (410, {}, UpdateCode.DOWNLOAD_NOT_FOUND),
        (400, {}, UpdateCode.DOWNLOAD_FAILED),
        (401, {}, UpdateCode.DOWNLOAD_FAILED),
        (403, {}, UpdateCode.DOWNLOAD_FAILED),
        (301, {"location": "https://elsewhere.example/"}, UpdateCode.DOWNLOAD_FAILED),
        (302, {}, UpdateCode.DOWNLOAD_FAILED),
        (307, {}, UpdateCode.DOWNLOAD_FAILED),
        (304, {}, UpdateCode.DOWNLOAD_FAILED),
        (204, {}, UpdateCode.DOWNLOAD_FAILED),
        (226, {}, UpdateCode.DOWNLOAD_FAILED),
        (600, {}, UpdateCode.DOWNLOAD_FAILED),
        (200, {"content_encoding": "gzip"}, UpdateCode.DOWNLOAD_FAILED),
        (206, {"content_encoding": "br", "content_range": "bytes 400-999/1000"}, UpdateCode.DOWNLOAD_FAILED),
        (200, {"content_length": "999"}, UpdateCode.CONTENT_MISMATCH),
        (200, {"content_length": "1001"}, UpdateCode.CONTENT_MISMATCH),
        (206, {"content_range": "bytes 400-1999/2000"}, UpdateCode.CONTENT_MISMATCH),
        (416, {"content_range": "bytes */200"}, UpdateCode.CONTENT_MISMATCH),
    ],
)
def test_refusals_for_good(status: int, headers: dict[str, str], code: UpdateCode) -> None:
    with pytest.raises(UpdateRefused) as caught:
        rest(status, **headers)
    assert caught.value.code is code
    assert not caught.value.again


def test_a_part_that_nobody_asked_for() -> None:
    with pytest.raises(UpdateRefused) as caught:
        whole(206, content_range="bytes 0-999/1000")
    assert caught.value.code is UpdateCode.DOWNLOAD_FAILED


@pytest.mark.parametrize("headers", [{}, {"content_range": "bytes */1000"}, {"content_range": "garbled"}])
def test_a_server_that_cannot_give_a_part_is_asked_for_the_whole(headers: dict[str, str]) -> None:
    with pytest.raises(BadRange):
        rest(416, **headers)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_later(status: int) -> None:
    with pytest.raises(Setback) as caught:
        rest(status, retry_after="7")
    assert caught.value.asked_s == 7.0


@pytest.mark.parametrize(
    ("retry_after", "date", "seconds"),
    [
        ("0", "", 0.0),
        ("120", "", 120.0),
        ("-5", "", None),
        ("1e9", "", None),
        ("soon", "", None),
        ("", "", None),
        ("9" * 40, "", None),
        # relative to the server's own clock, whatever ours says
        ("Thu, 01 Jan 1970 00:02:00 GMT", "Thu, 01 Jan 1970 00:00:30 GMT", 90.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", "Thu, 01 Jan 1970 00:00:30 GMT", 0.0),
        ("Thu, 01 Jan 2099 00:00:00 GMT", "", None),
        ("Thu, 01 Jan 2099 00:00:00 GMT", "Thu, 01 Jan 2099 00:00:00", None),
    ],
)
def test_retry_after(retry_after: str, date: str, seconds: float | None) -> None:
    assert retry_after_s({"retry-after": retry_after, "date": date}) == seconds
