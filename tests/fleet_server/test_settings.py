"""The data directory's settings: defaults, the file, the environment above it, one sentence for what is wrong."""

import re
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from edge_runtime.errors import ConfigError
from edge_runtime.protocol.enrolment import BrokerTransport
from fleet_server.broker_url import parse_broker_url
from fleet_server.settings import ServerSettings
from tests.conftest import REPOSITORY

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def _written(directory: Path, text: str) -> Path:
    (directory / "settings.toml").write_text(text)
    return directory


def test_defaults_name_the_database_in_the_directory(tmp_path: Path) -> None:
    settings = ServerSettings.load(_written(tmp_path, "version = 1\n"), {})

    assert settings.database_url == f"sqlite:///{tmp_path}/fleet.db"
    assert settings.paths.ca_key == tmp_path / "authority" / "ca.key"
    assert settings.broker.address().port == 8883
    assert settings.broker.uses_tls


def test_the_environment_stands_above_the_file(tmp_path: Path) -> None:
    directory = _written(tmp_path, 'database = "sqlite:////elsewhere.db"\n[http]\nport = 1\n')
    settings = ServerSettings.load(
        directory,
        {
            "FLEET_DATABASE": "postgresql://fleet@db/fleet",
            "FLEET_BROKER": "mqtts://broker.example:8883",
            "FLEET_BROKER_FILES": "/etc/mosquitto/fleet",
            "FLEET_LISTEN": "[::1]:9000",
        },
    )

    assert settings.database_url == "postgresql://fleet@db/fleet"
    assert settings.broker.address().host == "broker.example"
    assert settings.broker.files == "/etc/mosquitto/fleet"
    assert (settings.http.host, settings.http.port) == ("::1", 9000)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hosts = [", "not TOML"),
        ("hosts = []", "hosts"),
        ("[ingest]\nqueue_messages = 16", "receive_maximum must be at most queue_messages"),
        ("colour = 1", "colour"),
        ('accepts = ["unknown"]', "accepts"),
        ('[broker]\nkind = "external"', "needs its url"),
        ('[broker]\nurl = "mqtt://far.example"', "clear"),
        ("[retention]\ndays = 10", "twice"),
        ("[ingest]\nbatch_events = 100000", "ingest.batch_events"),
        ("broker = 3", "broker"),
        ("version = 2", "version"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        ServerSettings.load(_written(tmp_path, text), {})
    assert "\n" not in str(caught.value)


def test_another_folder_is_no_data_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="fleet init"):
        ServerSettings.load(tmp_path, {})


def test_a_value_is_never_repeated(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        ServerSettings.load(_written(tmp_path, ""), {"FLEET_BROKER": "mqtts://user:sesame@host"})
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "port", "transport"),
    [
        ("mqtts://b", 8883, BrokerTransport.TCP),
        ("mqtts://b:1", 1, BrokerTransport.TCP),
        ("wss://b/x", 443, BrokerTransport.WEBSOCKETS),
        ("mqtt://127.0.0.1", 1883, BrokerTransport.TCP),
    ],
)
def test_broker_urls(url: str, port: int, transport: BrokerTransport) -> None:
    address = parse_broker_url(url)
    assert (address.port, address.transport) == (port, transport)


@pytest.mark.parametrize(
    "url", ["http://b", "mqtts://", "mqtts://b/path", "mqtts://b:99999", "mqtt://10.0.0.1", "x"]
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"broker|clear|path"):
        parse_broker_url(url)


def test_the_operators_guide_shows_every_setting_with_its_default(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "fleet.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert ServerSettings.at(tmp_path, **tomllib.loads(shown)) == ServerSettings.at(tmp_path)
    sections = dict(re.findall(r"^\[(\w+)\]\n(.*?)(?=^\[|\Z)", shown, re.DOTALL | re.MULTILINE))
    sections[""] = shown.split("\n[")[0]
    defaults = ServerSettings.at(tmp_path)
    for name, text in sections.items():
        section = getattr(defaults, name) if name else defaults
        named = set(re.findall(r"^(?:# )?(\w+) = ", text, re.MULTILINE))
        nested = {field for field in type(section).model_fields if _is_section(section, field)}
        assert named == set(type(section).model_fields) - nested, name
    assert set(sections) - {""} == {
        field for field in ServerSettings.model_fields if _is_section(defaults, field)
    }


def _is_section(settings: object, field: str) -> bool:
    return isinstance(getattr(settings, field), BaseModel)
