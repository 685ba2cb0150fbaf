import subprocess
import sys
import threading
import urllib.request

import pytest

from edge_runtime import __version__
from edge_runtime.errors import ConfigError
from edge_runtime.telemetry.metrics import STAGES, Metrics, MetricsAddressInUse, parse_address


def _lines(metrics: Metrics) -> set[str]:
    return set(metrics.expose().decode().splitlines())


def test_every_number_of_the_runtime_has_its_metric() -> None:
    metrics = Metrics(config_digest="sha256:ab")
    for stage in STAGES:
        metrics.stage(stage, "dock", 0.004)
    metrics.age("dock", 0.06)
    metrics.frame("dock", "evaluated")
    metrics.frame("dock", "timed_out")
    metrics.event("dock", "in", "started", "warning", late=True)
    metrics.event("dock", "in", "ended", "warning")
    for total in (3, 7, 7):  # totals, as a tick reports them again and again
        metrics.suppressed("dock", "in", total)
    metrics.nonfinite("dock", 3)
    metrics.nonfinite("dock", 0)
    metrics.evidence(4096)
    lines = _lines(metrics)
    for stage in STAGES:
        assert f'edge_stage_seconds_bucket{{camera="dock",le="0.005",stage="{stage}"}} 1.0' in lines
        assert f'edge_stage_seconds_bucket{{camera="dock",le="0.0025",stage="{stage}"}} 0.0' in lines
    assert 'edge_frame_age_seconds_count{camera="dock"} 1.0' in lines
    assert 'edge_frames_total{camera="dock",outcome="evaluated"} 1.0' in lines
    assert 'edge_frames_total{camera="dock",outcome="timed_out"} 1.0' in lines
    assert 'edge_events_total{camera="dock",rule="in",severity="warning",state="started"} 1.0' in lines
    assert 'edge_events_late_total{camera="dock",rule="in"} 1.0' in lines
    assert 'edge_events_suppressed_total{camera="dock",rule="in"} 7.0' in lines
    assert 'edge_nonfinite_total{camera="dock"} 3.0' in lines
    assert "edge_evidence_bytes 4096.0" in lines
    assert any(
        line.startswith("edge_build_info{") and __version__ in line and "sha256:ab" in line for line in lines
    )


def test_a_source_reports_totals_and_counters_follow_them() -> None:
    metrics = Metrics()
    metrics.source("dock", "running", reconnects=0, decoded=10, drops={"stale": 2})
    metrics.source("dock", "stalled", reconnects=1, decoded=25, drops={"stale": 5, "overrun": 1})
    lines = _lines(metrics)
    assert 'edge_source_state{camera="dock",state="stalled"} 1.0' in lines
    assert 'edge_source_state{camera="dock",state="running"} 0.0' in lines
    assert 'edge_source_reconnects_total{camera="dock"} 1.0' in lines
    assert 'edge_source_decoded_total{camera="dock"} 25.0' in lines
    assert 'edge_drops_total{camera="dock",cause="stale"} 5.0' in lines
    assert 'edge_drops_total{camera="dock",cause="overrun"} 1.0' in lines


def test_a_source_that_begins_anew_never_lowers_a_counter() -> None:
    metrics = Metrics()
    metrics.source("dock", "running", reconnects=4, decoded=10, drops={})
    metrics.source("dock", "running", reconnects=1, decoded=3, drops={})
    assert 'edge_source_reconnects_total{camera="dock"} 5.0' in _lines(metrics)
    assert 'edge_source_decoded_total{camera="dock"} 13.0' in _lines(metrics)


def test_two_runs_in_one_process_do_not_add_up() -> None:
    first, second = Metrics(), Metrics()
    first.frame("dock", "evaluated")
    assert not any(line.startswith("edge_frames_total") for line in _lines(second))


def test_the_endpoint_serves_and_closes_cleanly() -> None:
    metrics = Metrics()
    metrics.frame("dock", "evaluated")
    threads = threading.active_count()
    with metrics.serve("127.0.0.1", 0) as server:
        host, port = server.address
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=5) as answer:
            assert b'edge_frames_total{camera="dock",outcome="evaluated"} 1.0' in answer.read()
        with pytest.raises(MetricsAddressInUse, match="cannot listen on 127"):
            metrics.serve(host, port)
    server.close()
    assert threading.active_count() == threads
    with metrics.serve(host, port) as again:
        assert again.address == (host, port)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("no.such.host.invalid", 0)])
def test_an_impossible_address_is_one_sentence(host: str, port: int) -> None:
    with pytest.raises(MetricsAddressInUse, match="choose another"):
        Metrics().serve(host, port)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9100", ("127.0.0.1", 9100)),
        (":9100", ("127.0.0.1", 9100)),
        ("9100", ("127.0.0.1", 9100)),
        ("[::1]:9100", ("::1", 9100)),
        ("host.local:0", ("host.local", 0)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "host", "host:", "host:http", "::1:9100", "host:65536", "host:-1", "h:²"]
)
def test_bad_addresses(text: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        parse_address(text)


def test_logs_and_redaction_do_not_import_prometheus_or_structlog() -> None:
    code = (
        "import sys; import edge_runtime.telemetry as t; t.redact('x');"
        "assert 'prometheus_client' not in sys.modules; assert 'structlog' not in sys.modules;"
        "t.get_logger(); assert 'structlog' in sys.modules; assert 'prometheus_client' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
