"""A child that is kept running, with real processes of a few lines; and how a worker's numbers are read."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.clock import SystemClock
from fleet_server.serve.children import Child, ChildRule
from fleet_server.serve.parts import ingest_probe
from tests.rigs.deliveries import FakeClock

READY = "import sys, time; print('ready 1', flush=True); time.sleep(60)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {READY}"
QUICK = ChildRule(ready_s=20.0, first_pause_s=0.01, longest_pause_s=0.05, stop_s=0.3)


def child(code: str, rule: ChildRule = QUICK) -> Child:
    return Child("part", [sys.executable, "-c", code], dict(os.environ), SystemClock(), rule)


def during(part: Child, act: Callable[[Child], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        running = asyncio.create_task(part.run())
        try:
            await asyncio.wait_for(act(part), 30)
        finally:
            await part.stop()
            await asyncio.wait_for(running, 10)

    asyncio.run(main())


def test_it_is_ready_when_it_says_so_and_ends_when_asked() -> None:
    part = child(READY)

    async def act(part: Child) -> None:
        await part.ready.wait()
        assert part.pid is not None

    during(part, act)
    assert (part.last_exit, part.restarts, part.pid) == (-15, 0, None)


def test_one_that_ends_is_started_again() -> None:
    part = child("print('ready')")

    async def act(part: Child) -> None:
        while part.restarts < 3:
            await asyncio.sleep(0.01)
        assert part.last_exit == 0

    during(part, act)


def test_one_that_had_been_ready_is_not_waited_for_as_long_as_one_that_never_is() -> None:
    waits = ChildRule(first_pause_s=60.0, longest_pause_s=60.0, served_pause_s=0.01, stop_s=0.3)
    part = child("print('ready')", waits)

    async def act(part: Child) -> None:
        while part.restarts < 3:
            await asyncio.sleep(0.01)

    during(part, act)


def test_one_that_does_not_listen_is_killed() -> None:
    part = child(DEAF)

    async def act(part: Child) -> None:
        await part.ready.wait()

    during(part, act)
    assert part.last_exit == -9


def test_one_that_is_never_ready_is_killed_and_tried_again() -> None:
    part = child("import time; time.sleep(60)", ChildRule(0.3, 0.01, 0.05, stop_s=0.3))

    async def act(part: Child) -> None:
        while part.restarts < 2:
            await asyncio.sleep(0.01)
        assert not part.ready.is_set()

    during(part, act)


def test_one_that_says_too_much_neither_stops_nor_fills_memory() -> None:
    part = child(f"import sys; sys.stdout.write('x' * 3_000_000 + chr(10)); {READY}")

    async def act(part: Child) -> None:
        await part.ready.wait()

    during(part, act)
    assert part.restarts == 0


def test_a_program_that_is_not_there_is_tried_again_and_no_defect() -> None:
    part = Child("part", ["/nowhere/program"], {}, SystemClock(), QUICK)

    async def act(part: Child) -> None:
        while part.restarts < 2:
            await asyncio.sleep(0.01)

    during(part, act)


@pytest.mark.parametrize(
    ("text", "age_s", "works", "word"),
    [
        (None, 0, True, "1 of 1 workers"),
        ('fleet_ingest_broker_up{worker="1"} 1.0\n', 5, True, "1 of 1 workers"),
        ('fleet_ingest_broker_up{worker="1"} 0.0\n', 5, False, "without a session"),
        ('fleet_ingest_broker_up{worker="1"} 1.0\n', 90, False, "silent for 90 s"),
    ],
)
def test_a_worker_that_hangs_is_told_by_its_numbers(
    tmp_path: Path, text: str | None, age_s: int, works: bool, word: str
) -> None:
    clock = FakeClock()
    if text is not None:
        file = tmp_path / "ingest-1.prom"
        file.write_text(text)
        then = clock.wall_ms / 1000 - age_s
        os.utime(file, (then, then))
    part = child(READY)
    part.ready.set()
    found = ingest_probe([part], tmp_path, clock)
    assert (found.ready, word in found.detail) == (works, True), found
    part.ready.clear()
    assert ingest_probe([part], tmp_path, clock).ready is False
