"""What an ingest process does beside events: it goes on whatever happens in one round."""

from pathlib import Path
from typing import cast

import pytest

from edge_runtime.clock import SystemClock
from fleet_server.ingest.chores import Chores
from fleet_server.ingest.intake import Intake
from fleet_server.ingest.metrics import IngestMetrics
from fleet_server.ingest.session import Session, SessionCounts
from fleet_server.settings import ServerSettings
from fleet_server.storage import Store
from tests.rigs.brokers import wait_until


class Odd:
    """A session in which something breaks once; the error's text is a secret."""

    def __init__(self) -> None:
        self.asked = 0
        self.counts = SessionCounts()

    @property
    def is_up(self) -> bool:
        self.asked += 1
        if self.asked == 2:
            raise RuntimeError("what a device sent")
        return False


def test_a_defect_in_one_round_does_not_end_the_others(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Odd()
    settings = ServerSettings.at(tmp_path)
    chores = Chores(
        settings,
        store,
        cast("Session", session),
        Intake(16, 1 << 20),
        metrics=IngestMetrics(1),
        clock=SystemClock(),
        worker=1,
    )
    chores.start()
    try:
        assert wait_until(lambda: session.asked >= 4)
    finally:
        chores.stop()
    said = "".join(capsys.readouterr())
    assert "RuntimeError" in said
    assert "what a device sent" not in said
