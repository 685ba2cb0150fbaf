"""Settings: strict, one sentence for what is wrong, never a value in it."""

import pytest

from edge_runtime.errors import ConfigError
from edge_runtime.uplink import UplinkSettings


def test_defaults_and_profiles() -> None:
    lan, lte = UplinkSettings.parse("{}"), UplinkSettings.parse('{"profile": "lte", "daily_bytes": 5000000}')
    assert (lan.linger, lte.linger) == (20, 5_000)
    assert lan.piece_bytes > lte.piece_bytes
    assert UplinkSettings.parse('{"linger_ms": 0}').linger == 0
    assert lan.reconnect.cap_s == 300
    assert lan.retry.first_s == 10


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "JSON"),
        ("{", "JSON"),
        ("[" * 100_000, "JSON"),
        ("[]", "settings"),
        ('{"profil": "lan"}', "profil"),
        ('{"profile": "fibre"}', "profile"),
        ('{"daily_bytes": 5}', "daily_bytes"),
        ('{"base_s": 0}', "base_s"),
        ('{"base_s": NaN}', "base_s"),
        ('{"window": 21}', "window"),
        ('{"proxy": "socks5://u:geheim@h:1"}', "proxy"),
        ('{"proxy": "http://u:geheim@host"}', "proxy"),
        ('{"server_url": "http://plain"}', "server_url"),
        ('{"broker": {"host": "h", "port": 70000}}', "broker.port"),
    ],
)
def test_what_is_wrong_is_named_in_one_sentence(text: str, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        UplinkSettings.parse(text)
    assert named in str(caught.value)
    assert "geheim" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
