"""`python -m tests.engines.killing FOLDER [CASE]...`: kills what the store does at each of its steps, and looks.

A step is everything that the interpreter's audit hook reports (opening, renaming, removing, making, locking), and
each call that writes or flushes. Each try is a fork of this process, which has no thread; it kills itself before
one step. Then the parent looks at what is left. It prints a line of JSON for each operation: its name, how many
steps it has, and a sentence that says what was wrong, or null.
"""

import itertools
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from edge_runtime.engines import EngineDamaged, EngineMismatch, EngineStore, Role, StoredEngine
from tests.rigs.engine_files import BUILD, ORIN, add, another, engine_of, files_below, recipe_for

RECIPE = recipe_for()
KEY = RECIPE.key
OTHER = another("another")
OLD = b"what was built before"
_AUDITED = frozenset({
    "open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.listdir", "os.chmod", "fcntl.flock"
})  # fmt: skip
_CALLS = frozenset({"write", "flush", "fsync", "fchmod", "pwrite", "ftruncate"})


@dataclass(frozen=True)
class Case:
    """An operation, what must be there before it, and what must hold after it was killed."""

    before: Callable[[EngineStore], object]
    act: Callable[[EngineStore], object]
    after: Callable[[EngineStore], None]
    quota: int = 1 << 20


def _found(store: EngineStore) -> StoredEngine | None:
    """What is found; an error is allowed once, because it puts away what it is about."""
    try:
        return store.find(RECIPE)
    except (EngineDamaged, EngineMismatch):
        return store.find(RECIPE)


def _works_on(store: EngineStore) -> None:
    """Whatever happened, the store keeps the next engine and nothing else is left beside it."""
    add(store)
    found = store.find(RECIPE)
    assert found is not None, "the next engine is not found"
    assert found.engine == engine_of(RECIPE), "the next engine is another one"
    store.prune()
    left = {
        name for name in files_below(store.folder.path) if not name.startswith(("quarantine", "failures"))
    }
    allowed = {
        "recent.json",
        *(name for name in left if name.startswith(("holds/", "timing/")) and "part" not in name),
    }
    held = {hold.key for hold in store.holds()}
    allowed |= {f"{key}{ending}" for key in held for ending in (".engine", ".json")}
    assert left <= allowed, f"left behind: {sorted(left - allowed)}"


def _old_new_or_none(*allowed: bytes | None) -> Callable[[EngineStore], None]:
    def check(store: EngineStore) -> None:
        found = store.find(RECIPE)  # no error at all
        engine = None if found is None else found.engine
        assert engine in allowed, f"found {engine!r}"
        other = store.find(OTHER)
        assert other is None or other.engine == engine_of(OTHER), "another engine suffered"
        _works_on(store)

    return check


def _gone_after_one_error(store: EngineStore) -> None:
    assert _found(store) is None
    assert store.failures.refusal(KEY) is None, store.failures.refusal(KEY)
    assert len(store.quarantined()) <= 2
    _works_on(store)


def _held_as_before_or_after(store: EngineStore) -> None:
    assert store.held("gate", Role.RUNNING) in {KEY, OTHER.key}
    assert not store.prune().removed, "a held engine was removed"
    _works_on(store)


def _cache_as_before_or_after(store: EngineStore) -> None:
    assert store.timing.read(ORIN) in {b"old cache", b"new cache"}
    _works_on(store)


def _remembered_or_not(store: EngineStore) -> None:
    assert [strike.reason for strike in store.failures.of(KEY)] in ([], ["no such layer"])
    _works_on(store)


def _damage(store: EngineStore) -> None:
    add(store)
    os.truncate(store.folder.engine(KEY), 10)


def _find(store: EngineStore) -> None:
    try:
        store.find(RECIPE)
    except EngineDamaged:
        return
    raise AssertionError("the damage was not noticed")


def _load(store: EngineStore) -> None:
    with store.loading(KEY):
        assert store.find(RECIPE) is not None


def _hold_both(store: EngineStore) -> None:
    add(store)
    add(store, OTHER)
    store.hold("gate", KEY, Role.RUNNING)
    store.hold("door", OTHER.key, Role.LAST_GOOD)
    store.hold("gate", KEY, Role.LAST_GOOD)


CASES = {
    "first": Case(lambda store: None, add, _old_new_or_none(None, engine_of(RECIPE))),
    "replaced": Case(
        lambda store: store.add(RECIPE, OLD, BUILD), add, _old_new_or_none(None, OLD, engine_of(RECIPE))
    ),
    "quota": Case(
        lambda store: add(store, OTHER), add, _old_new_or_none(None, engine_of(RECIPE)), quota=7000
    ),
    "quarantined": Case(_damage, _find, _gone_after_one_error),
    "pruned": Case(add, lambda store: store.prune(), _old_new_or_none(None, engine_of(RECIPE))),
    "held": Case(
        _hold_both, lambda store: store.hold("gate", OTHER.key, Role.RUNNING), _held_as_before_or_after
    ),
    "timing": Case(
        lambda store: store.timing.save(ORIN, b"old cache"),
        lambda store: store.timing.save(ORIN, b"new cache"),
        _cache_as_before_or_after,
    ),
    "loading": Case(add, _load, _old_new_or_none(engine_of(RECIPE))),
    "failure": Case(
        lambda store: None, lambda store: store.failures.note(KEY, "no such layer"), _remembered_or_not
    ),
}


def _kill_at(step: int) -> None:
    """From now on count, and end without a word before the given step."""
    numbers = itertools.count()

    def count() -> None:
        if next(numbers) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def audited(event: str, _arguments: object) -> None:
        if event in _AUDITED:
            count()

    def called(_frame: FrameType, event: str, function: object) -> None:
        if event == "c_call" and getattr(function, "__name__", "") in _CALLS:
            count()

    sys.setprofile(called)
    sys.addaudithook(audited)


def _act_and_end(case: Case, store: EngineStore, step: int) -> NoReturn:
    """The child's whole life: nothing of the parent's loop goes on in it."""
    try:
        _kill_at(step)
        case.act(store)
        os._exit(0)
    finally:
        traceback.print_exc()
        os._exit(1)


def killed_everywhere(folder: Path, case: Case) -> int:
    """How many steps there were; raises AssertionError where something is wrong after one."""
    for step in itertools.count():
        directory = folder / "engines"
        shutil.rmtree(directory, ignore_errors=True)
        store = EngineStore(directory, quota_bytes=case.quota)
        case.before(store)
        child = os.fork()  # noqa: TID251 no thread and no GPU here, and an interpreter for each step takes minutes
        if child == 0:
            _act_and_end(case, store, step)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status)
        assert killed or os.WEXITSTATUS(status) == 0, f"step {step}: the operation failed"
        try:
            case.after(EngineStore(directory, quota_bytes=case.quota))
        except BaseException as error:
            raise AssertionError(f"killed before step {step}: {error}") from error
        if not killed:
            return step
    raise AssertionError


def main(folder: Path, names: list[str]) -> None:
    """One line for each operation."""
    for name in names or CASES:
        steps, wrong = 0, None
        try:
            steps = killed_everywhere(folder, CASES[name])
        except AssertionError as error:
            wrong = str(error)
        print(json.dumps([name, steps, wrong]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
