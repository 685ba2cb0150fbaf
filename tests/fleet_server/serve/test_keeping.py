"""What the server does by itself goes on after whatever went wrong in a round."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.clock import NS_PER_MS, SystemClock
from fleet_server.audit import Audit
from fleet_server.releases.desk import ReleaseDesk
from fleet_server.serve.keeping import keep_fresh, step_rollouts
from fleet_server.settings import ServerSettings
from fleet_server.storage import Store, open_store
from tests.rigs.databases import migrated_database
from tests.rigs.deliveries import FakeClock
from tests.rigs.fleet_server import FleetServer
from tests.rigs.release_parties import SignedFleet, configuration
from tests.rigs.rollout_fleet import PaperFleet


class Defect(Exception):
    """Something that nobody thought of."""


@pytest.fixture
def sqlite(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(migrated_database(request, tmp_path, "sqlite"))
    yield opened
    opened.close()


def test_rollouts_go_on_after_a_defect(sqlite: Store, caplog: pytest.LogCaptureFixture) -> None:
    fleet = PaperFleet(sqlite)
    fleet.publish(1)
    fleet.enrol("dev-0", fate="silent")
    rollout = fleet.run(1)
    real, failures = fleet.director._signing, 0

    def signing(reader: Any) -> Any:
        nonlocal failures
        if failures < 2:
            failures += 1
            raise Defect("of the second kind")
        return real(reader)

    fleet.director._signing = signing
    _until(step_rollouts(fleet.service, every_s=0.01), lambda: fleet.states(rollout) == {"dev-0": "offered"})
    said = [record.getMessage() for record in caplog.records if record.name == "fleet_server.serve"]
    assert said.count("rollouts do not go on: Defect: of the second kind") == 1


def test_metadata_is_kept_fresh_after_a_defect(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FleetServer(tmp_path / "data")
    settings = ServerSettings.load(server.directory, {})
    clock = FakeClock()
    clock.wall_ms = SystemClock().wall().unix_ns // NS_PER_MS
    with closing(open_store(settings.database_url)) as store:
        desk = ReleaseDesk(settings.paths, store, settings.releases, audit=Audit(clock), clock=clock)
        fleet = SignedFleet.begin(tmp_path, store, clock=clock, desk=desk)
        fleet.publish(configuration(tmp_path / "c"), name="base")
        clock.wall_ms += 3 * 86_400_000
        real, made = desk.freshness.keep, list[list[str]]()

        def keep() -> list[str]:
            if not made:
                made.append([])
                raise Defect("of the first kind")
            made.append(real())
            return made[-1]

        monkeypatch.setattr(desk.freshness, "keep", keep)
        _until(keep_fresh(desk, every_s=0.01), lambda: len(made) > 2)
    assert "timestamp" in made[1]
    said = [record.getMessage() for record in caplog.records if record.name == "fleet_server.serve"]
    assert said.count("signed metadata cannot be renewed: Defect: of the first kind") == 1


def _until(keeping: Coroutine[Any, Any, Any], done: Callable[[], bool]) -> None:
    """Let it run until something is so; it must not end before."""

    async def watch() -> None:
        task = asyncio.create_task(keeping)
        try:
            for _ in range(3000):
                if done():
                    return
                assert not task.done(), task
                await asyncio.sleep(0.01)
            raise AssertionError("it did not happen")
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(watch())
