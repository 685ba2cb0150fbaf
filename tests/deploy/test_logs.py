"""What bounds each log: docs/deployment.md says it, and the files say the same."""

import re
from pathlib import Path

import yaml

from fleet_server.broker.nats_config import NatsListen, nats_config
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs/deployment.md").read_text()


def row(name: str) -> str:
    """A row of the table of logs."""
    found = re.search(rf"^\| {re.escape(name)}(?:,[^|]*)? \| (.*) \|$", PAGE, re.MULTILINE)
    assert found is not None, name
    return found[1]


def test_the_journal_is_bounded_as_is_stated() -> None:
    text = (REPOSITORY / "deploy/systemd/journald.conf").read_text()
    for line, words in (
        ("SystemMaxUse=256M", "256 MiB"),
        ("MaxRetentionSec=30day", "30 days"),
        ("RateLimitBurst=2000", "2,000 lines"),
        ("RateLimitIntervalSec=30s", "30 s"),
    ):
        assert f"\n{line}\n" in text
        assert words in row("all services")


def test_the_embedded_broker_rotates_its_own_log() -> None:
    listen = NatsListen(
        host="127.0.0.1",
        port=8883,
        certificate=Path("/c"),
        key=Path("/k"),
        authority=Path("/a"),
        store=Path("/s"),
        log=Path("/l"),
    )
    assert "logfile_size_limit: 8MB, logfile_max_num: 3" in nats_config(listen, [])
    assert row("nats-server") == "itself: three files of 8 MiB"


def test_containers_keep_a_bounded_number_of_lines() -> None:
    services = yaml.safe_load((REPOSITORY / "deploy/containers/compose.yaml").read_text())["services"]
    options = [service["logging"]["options"] for service in services.values()]
    assert options == [{"max-size": "10m", "max-file": "5"}] * len(services)
    assert row("containers") == "compose: five files of 10 MiB each"


def test_no_service_writes_a_log_that_somebody_else_would_have_to_rotate() -> None:
    for path in [*(REPOSITORY / "deploy").glob("*/*.service")]:
        text = path.read_text()
        assert "StandardOutput=" not in text
        assert "StandardError=" not in text, f"{path.name}: the journal is where it goes"
