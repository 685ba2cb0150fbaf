"""The process table over real processes: who is missed, who ends the run, who is given more time, who ends when."""

import time
from pathlib import Path

import pytest

from edge_runtime.guard.conditions import Condition
from edge_runtime.guard.settings import Ends
from edge_runtime.guard.worker import Phase, RunOver
from tests.rigs.guard_tables import MS, row, running

C = Condition
WORK = """
while True:
    beat()
    time.sleep(0.01)
"""
ONCE = "beat()\ntime.sleep(60)"
HANGS = "beat(20)\ntime.sleep(60)"
DEAD = "beat()\ntime.sleep(0.2)\nos._exit(1)"


def test_one_that_is_not_critical_is_no_condition_when_it_dies_and_is_started_again_for_ever() -> None:
    with running(row("uplink", "sys.exit(1)", critical=False, restarts=1)) as tables:
        tables.until(lambda _: tables.worker("uplink").starts > 4)
        assert tables.worker("uplink").looping
        assert tables.looked.tripped == 0
        assert not tables.looked.evaluated & C.LINK_LOST.mask


def test_one_that_is_not_critical_and_hangs_is_killed_without_being_a_suspect() -> None:
    with running(row("uplink", HANGS, critical=False)) as tables:
        looked = tables.until(lambda looked: bool(looked.expendable))
        assert (looked.expendable, looked.suspects, looked.tripped) == (("uplink",), (), 0)
        assert looked.beyond_ns is None
        assert not looked.evaluated & C.LINK_LOST.mask, "what it evaluated is not evaluated now"
        tables.until(lambda _: tables.worker("uplink").starts > 1)


def test_a_critical_one_is_a_suspect() -> None:
    with running(row("perception", HANGS)) as tables:
        looked = tables.until(lambda looked: bool(looked.tripped))
        assert looked.tripped == C.WORKER_HUNG.mask
        assert (looked.suspects, looked.expendable) == (("perception",), ())


def test_a_crash_loop_is_tried_at_the_longest_pause_and_is_over_when_it_worked_for_a_window(
    tmp_path: Path,
) -> None:
    well = tmp_path / "well"
    script = f"if not os.path.exists({str(well)!r}): sys.exit(1)\n{WORK}"
    with running(row("outbox", script, restarts=2, window_ns=1_500 * MS, backoff_ns=400 * MS)) as tables:
        worker = tables.worker("outbox")
        tables.until(lambda looked: bool(looked.tripped & C.CRASH_LOOP.mask))
        assert worker.starts == 3
        tables.until(lambda _: worker.starts > 3 and worker.phase is Phase.ENDED)
        since_ns = worker.started_ns
        tables.until(lambda _: worker.starts > 4)
        assert worker.started_ns - since_ns >= 400 * MS
        well.touch()
        looked = tables.until(lambda _: worker.phase is Phase.WORKING)
        assert looked.tripped == C.CRASH_LOOP.mask, "it beats, which proves little yet"
        assert looked.evaluated & C.LINK_LOST.mask, "but what it says is heard"
        tables.until(lambda looked: looked.tripped == 0)


@pytest.mark.parametrize(
    ("ends", "script", "over"),
    [
        (Ends.DONE, "sys.exit(0)", RunOver(0, clean=True)),
        (Ends.DONE, "beat(); sys.exit(0)", RunOver(0, clean=True)),
        (Ends.DONE, "sys.exit(2)", RunOver(2, clean=True)),
        (Ends.DONE, "slot.starting('configured'); sys.exit(2)", RunOver(2, clean=True)),
        (Ends.DONE, "beat(); sys.exit(2)", None),
        (Ends.DONE, "sys.exit(1)", None),
        (Ends.DONE, "os.kill(os.getpid(), signal.SIGKILL)", None),
        (Ends.ALWAYS, "sys.exit(0)", RunOver(0, clean=True)),
        (Ends.ALWAYS, "sys.exit(7)", RunOver(7, clean=False)),
        (Ends.ALWAYS, "beat(); sys.exit(2)", RunOver(2, clean=False)),
        (Ends.ALWAYS, "os.kill(os.getpid(), signal.SIGSEGV)", RunOver(139, clean=False)),
        (Ends.NEVER, "sys.exit(0)", None),
        (Ends.NEVER, "sys.exit(2)", None),
    ],
)
def test_which_end_ends_the_run(ends: Ends, script: str, over: RunOver | None) -> None:
    with running(row("perception", script, ends=ends, backoff_ns=60_000 * MS)) as tables:
        looked = tables.until(lambda _: tables.worker("perception").phase is Phase.ENDED)
        assert looked.over == over
        dead = C.WORKER_DEAD.mask if over is None or not over.clean else 0
        assert looked.tripped == dead, "what is done is not dead"


def test_one_that_cannot_be_started_ends_the_run_where_any_end_does() -> None:
    for ends, over in ((Ends.ALWAYS, RunOver(1, clean=False)), (Ends.DONE, None)):
        with running(row("perception", ends=ends, command=("/nonexistent",))) as tables:
            tables.turn()
            assert tables.turn().over == over
            assert tables.looked.tripped == C.WORKER_DEAD.mask


def test_a_start_that_gets_on_is_given_time_and_one_that_only_says_so_is_not_given_it_for_ever() -> None:
    steps = "for step in range({steps}):\n    time.sleep(0.1)\n    slot.starting(f'step {{step}}')\n"
    # the interpreter's own start is in the first step
    limits = {"start_ns": 3_000 * MS, "start_longest_ns": 6_000 * MS}
    slow = row("slow", steps.format(steps=40) + WORK, **limits)
    endless = row("endless", steps.format(steps=10_000), **limits)
    silent = row("silent", "time.sleep(60)", **limits)
    with running(slow, endless, silent) as tables:
        looked = tables.until(lambda looked: bool(looked.tripped))
        assert (looked.tripped, looked.suspects) == (C.WORKER_START_TIMEOUT.mask, ("silent",))
        progress = tables.worker("endless").progress
        assert progress is not None
        assert progress.stage.startswith("step")
        assert tables.worker("endless").beat is None
        tables.until(lambda _: tables.worker("slow").phase is Phase.WORKING)
        assert tables.worker("slow").beat is not None
        began_ns = tables.worker("endless").started_ns
        tables.until(lambda looked: "endless" in looked.suspects)
        progress = tables.worker("endless").progress
        assert progress is not None
        assert progress.beat_ns - began_ns > 5_000 * MS, "it made progress to the last"


ON_TERM = """
def ended(*_):
    with open({log!r}, "a") as file:
        file.write({name!r} + "\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, {handler})
"""


def stoppable(name: str, log: Path, *, obeys: bool = True) -> str:
    return ON_TERM.format(log=str(log), name=name, handler="ended" if obeys else "signal.SIG_IGN") + WORK


def test_all_end_in_the_reverse_order_one_after_another(tmp_path: Path) -> None:
    log = tmp_path / "log"
    names = ("outbox", "uplink", "monitor", "perception")
    with running(*(row(name, stoppable(name, log)) for name in names)) as tables:
        tables.until(lambda _: all(tables.worker(name).phase is Phase.WORKING for name in names))
        tables.table.stop(time.monotonic_ns())
        phases = [tables.worker(name).phase for name in names]
        assert phases == [Phase.WORKING] * 3 + [Phase.STOPPING], "the others wait for it"
        tables.stop()
        assert log.read_text().split() == list(reversed(names))
        for name in names:
            worker = tables.worker(name)
            assert (worker.died, worker.over, worker.last_exit) == (False, None, 0)


def test_one_that_does_not_end_is_killed_after_its_time_and_one_that_lives_on_is_left(tmp_path: Path) -> None:
    log = tmp_path / "log"
    deaf = stoppable("deaf", log, obeys=False)
    rows = (
        row("outbox", stoppable("outbox", log)),
        row("deaf", deaf, stop_ns=300 * MS),
        row("gate", deaf, stop_ns=200 * MS, lives_on=True),
    )
    with running(*rows) as tables:
        tables.until(lambda _: all(tables.worker(one.name).phase is Phase.WORKING for one in rows))
        assert tables.stop() >= 0.5
        assert log.read_text().split() == ["outbox"]
        assert tables.worker("deaf").last_exit == -9
        assert tables.worker("gate").phase is Phase.STOPPING
        assert tables.worker("gate").pid is not None


def test_one_that_died_before_or_was_never_started_is_not_waited_for(tmp_path: Path) -> None:
    rows = (row("first", DEAD, backoff_ns=60_000 * MS), row("second", WORK, after=("first",)))
    with running(*rows) as tables:
        tables.until(lambda _: tables.worker("first").phase is Phase.ENDED)
        tables.stop()
