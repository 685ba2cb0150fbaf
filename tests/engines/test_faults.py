"""What may lie where the store looks: pipes, links, folders, nonsense; and disks that are full or read-only."""

import errno
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge_runtime.engines import (
    EngineDamaged,
    EngineError,
    EngineStore,
    Role,
    StoreBusy,
    StoreFull,
    StoreUnusable,
)
from edge_runtime.engines import records as records_module
from edge_runtime.state import StateDirectory
from tests.rigs.engine_files import (
    BUILD,
    ORIN,
    DeviceClock,
    add,
    another,
    engine_of,
    files_below,
    recipe_for,
)
from tests.rigs.small_disk import fill_up, small_disk

RECIPE = recipe_for()
KEY = RECIPE.key


@pytest.fixture
def store(tmp_path: Path) -> EngineStore:
    clock = DeviceClock()
    return EngineStore(tmp_path / "engines", clock=clock, sleep=clock.sleep)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_bytes(b"x")


def _link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 42)  # sparse: 4 TiB that take no room


def _nested(path: Path) -> None:
    path.write_bytes(b'{"format":1,"manifest":' + b"[" * 200_000)


def _number(path: Path) -> None:
    path.write_bytes(b'{"format":' + b"9" * 5000 + b"}")


def _not_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")


def _array(path: Path) -> None:
    path.write_bytes(b"[1, 2]")


ODD: tuple[Callable[[Path], None], ...] = (
    _pipe, _folder, _link, _dangling, _loop, _empty, _huge, _nested, _number, _not_text, _array
)  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("which", ["engine", "manifest"])
def test_whatever_lies_there_is_put_away_once(
    store: EngineStore, which: str, odd: Callable[[Path], None]
) -> None:
    add(store)
    path = store.folder.engine(KEY) if which == "engine" else store.folder.manifest(KEY)
    path.unlink()
    odd(path)
    assert len(store.entries()) == 1  # listing neither waits nor fails
    with pytest.raises(EngineDamaged) as caught:
        store.find(RECIPE)
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)
    assert store.find(RECIPE) is None
    add(store)
    found = store.find(RECIPE)
    assert found is not None
    assert found.engine == engine_of(RECIPE)
    assert Path("/etc/passwd").exists()
    assert store.usage().quarantine <= 512 << 20


@pytest.mark.parametrize("odd", ODD)
def test_odd_files_in_every_other_place_stop_nothing(store: EngineStore, odd: Callable[[Path], None]) -> None:
    add(store)
    store.hold("gate", KEY, Role.RUNNING)
    store.failures.note(another("x").key, "why")
    store.timing.save(ORIN, b"cache")
    store.quarantine(another("x").key, "why")
    folder = store.folder
    for place in [
        folder.recent,
        *folder.failures.iterdir(),
        *folder.timing.iterdir(),
        *(case / "reason.json" for case in folder.quarantine.iterdir()),
    ]:
        place.unlink()
        odd(place)
    for place in (folder.path, folder.holds, folder.failures, folder.timing, folder.quarantine, folder.locks):
        odd(place / "unexpected")
        odd(place / f"{'0' * 64}.json")
    assert store.find(RECIPE) is not None
    assert store.failures.refusal(another("x").key) is None
    store.failures.begin(another("x").key)
    add(store, another("x"))
    store.hold("gate", another("x").key, Role.RUNNING)
    store.hold("gate", KEY, Role.LAST_GOOD)
    assert store.timing.read(ORIN) is None
    assert store.timing.save(ORIN, b"cache")
    assert store.timing.read(ORIN) == b"cache"
    store.quarantined()
    store.usage()
    store.prune()
    store.failures.failing_keys()
    assert store.find(RECIPE) is not None
    assert store.find(another("x")) is not None


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.binary(max_size=300)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=5) | st.floats(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["format", "manifest", "sha256", "recipe", "machine", "engine_bytes", "keys"]
                ),
                inner,
            )
        ),
        max_leaves=12,
    ).map(lambda value: json.dumps(value).encode())
)
def test_any_manifest_is_read_without_a_traceback(data: bytes, store: EngineStore) -> None:
    store.folder.make()
    store.folder.manifest(KEY).write_bytes(data)
    store.folder.engine(KEY).write_bytes(b"engine")
    with pytest.raises(EngineError) as caught:
        store.find(RECIPE)
    assert "\n" not in str(caught.value)
    store.folder.manifest(KEY).unlink(missing_ok=True)


# Places


def test_the_directory_may_be_a_link(store: EngineStore, tmp_path: Path) -> None:
    (tmp_path / "other_disk").mkdir()
    store.folder.path.symlink_to(tmp_path / "other_disk")
    add(store)
    assert store.find(RECIPE) is not None
    assert (tmp_path / "other_disk" / f"{KEY}.engine").exists()


def test_a_folder_of_it_may_not(store: EngineStore, tmp_path: Path) -> None:
    add(store)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious.part-1").write_bytes(b"x")
    store.folder.holds.rmdir()
    store.folder.holds.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreUnusable, match="holds is a link, not a folder"):
        store.hold("gate", KEY, Role.RUNNING)
    with pytest.raises(StoreUnusable, match="is a link"):
        store.prune()
    assert (tmp_path / "elsewhere" / "precious.part-1").exists()


@pytest.mark.parametrize("odd", [_pipe, _empty, _loop])
def test_something_else_in_the_place_of_the_directory(
    store: EngineStore, tmp_path: Path, odd: Callable[[Path], None]
) -> None:
    odd(tmp_path / "engines")
    for act in (
        lambda: add(store),
        lambda: store.hold("gate", KEY, Role.RUNNING),
        lambda: store.failures.begin(KEY),
        store.prune,
        lambda: store.find(RECIPE),
        store.entries,
    ):
        with pytest.raises(StoreUnusable, match="engine store"):
            act()
    store.failures.note(KEY, "no such layer")  # this process remembers what no disk does
    assert store.failures.refusal(KEY) is not None
    assert not store.timing.save(ORIN, b"x")


def test_the_state_directory_makes_its_place(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state").ensure()
    assert state.engines == tmp_path / "state" / "engines"
    assert state.engines.stat().st_mode & 0o777 == 0o700
    add(EngineStore(state.engines))


def test_an_engine_vanishes_between_the_two_readings(
    store: EngineStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process prunes while this one reads: that is no damage."""
    add(store)
    reading = records_module.read_whole

    def read_and_prune(path: Path, largest: int) -> bytes:
        data = reading(path, largest)
        if path == store.folder.manifest(KEY):
            store.folder.manifest(KEY).unlink()
            store.folder.engine(KEY).unlink()
        return data

    monkeypatch.setattr("edge_runtime.engines.verify.read_whole", read_and_prune)
    assert store.find(RECIPE) is None
    assert store.quarantined() == ()
    assert store.failures.of(KEY) == ()


def test_an_engine_that_is_replaced_while_it_is_read_is_read_again(
    store: EngineStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(store)
    reading = records_module.read_whole
    replaced: list[bool] = []

    def read_and_replace(path: Path, largest: int) -> bytes:
        data = reading(path, largest)
        if path == store.folder.manifest(KEY) and not replaced:
            replaced.append(True)
            store.add(RECIPE, b"a newer one", BUILD)
        return data

    monkeypatch.setattr("edge_runtime.engines.verify.read_whole", read_and_replace)
    found = store.find(RECIPE)
    assert found is not None
    assert found.engine == b"a newer one"
    assert store.quarantined() == ()


def test_an_engine_vanishes_between_listing_and_reading(
    store: EngineStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(store)
    gone = another("gone").key
    monkeypatch.setattr("edge_runtime.engines.listing.stored_keys", lambda _folder: (gone, KEY))
    assert [entry.key for entry in store.entries()] == [KEY]
    assert store.inspect(gone) is None
    assert [entry.key for entry in store.prune().removed] == [KEY]


def test_two_that_find_the_same_damage_take_it_out_once(store: EngineStore) -> None:
    add(store)
    os.truncate(store.folder.engine(KEY), 5)
    outcomes: list[str] = []
    together = threading.Barrier(4)

    def find() -> None:
        mine = EngineStore(store.folder.path)
        together.wait()
        try:
            outcomes.append(str(mine.find(RECIPE)))
        except EngineDamaged:
            outcomes.append("damaged")

    finders = [threading.Thread(target=find) for _ in range(4)]
    for finder in finders:
        finder.start()
    for finder in finders:
        finder.join()
    assert sorted(outcomes) == ["None", "None", "None", "damaged"]
    assert len(store.quarantined()) == 1
    assert len(store.failures.of(KEY)) == 1


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_machine_in_need_says_nothing_about_an_engine(
    store: EngineStore, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    add(store)

    def fail(*_: object) -> bytes:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr("edge_runtime.engines.verify.read_whole", fail)
        with pytest.raises(StoreUnusable, match=os.strerror(number)):
            store.find(RECIPE)
    assert store.find(RECIPE) is not None


def test_a_disk_that_cannot_be_read_costs_the_engine(
    store: EngineStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(store)

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr("edge_runtime.engines.verify.read_whole", fail)
        with pytest.raises(EngineDamaged, match="cannot be read: Input/output error"):
            store.find(RECIPE)
    assert store.find(RECIPE) is None


# Disks


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with ExitStack() as stack:
        yield stack.enter_context(small_disk(tmp_path / "disk", 8))


def test_a_full_disk_leaves_nothing_behind(disk: Path) -> None:
    store = EngineStore(disk / "engines")
    add(store)
    before = files_below(disk / "engines")
    with pytest.raises(StoreFull) as caught:
        add(store, another("large"), 9 << 20)
    assert str(caught.value).startswith("the engine has 9.0 MiB, and 1.0 MiB are missing on its disk (")
    assert str(caught.value).endswith(
        "make room there, or delete the store while nothing runs: what is needed is built again"
    )
    assert files_below(disk / "engines") == before
    assert store.find(another("large")) is None
    assert store.find(RECIPE) is not None


def test_a_disk_that_fills_up_meanwhile_leaves_nothing_behind(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EngineStore(disk / "engines")
    add(store)
    store.hold("gate", KEY, Role.RUNNING)
    before = files_below(disk / "engines")
    monkeypatch.setattr("edge_runtime.engines.room.Room.free", lambda _room: 1 << 40)
    with pytest.raises(StoreFull) as caught:
        add(store, another("large"), 9 << 20)
    assert str(caught.value) == (
        f"the engine of 9.0 MiB cannot be kept: No space left on device ({disk / 'engines'}); "
        "make room on this disk, or remove engines with `edge-runtime engine prune`"
    )
    assert files_below(disk / "engines") == before


def test_engines_that_nobody_needs_give_way_to_a_small_disk(disk: Path) -> None:
    store = EngineStore(disk / "engines")
    for name in ("a", "b", "c"):
        add(store, another(name), 2 << 20)
    store.hold("gate", another("a").key, Role.RUNNING)
    add(store, RECIPE, 3 << 20)
    assert [entry.key for entry in store.entries()] == [another(name).key for name in ("a", "c")] + [KEY]


def test_a_disk_without_a_single_byte_left(disk: Path) -> None:
    store = EngineStore(disk / "engines")
    add(store)
    fill_up(disk)
    before = files_below(disk / "engines")
    with pytest.raises(StoreUnusable, match=r"5 KiB are missing on its disk .* make room there"):
        add(store)
    with pytest.raises(StoreUnusable, match="No space left"):
        store.hold("gate", KEY, Role.RUNNING)
    with pytest.raises(StoreUnusable, match="No space left"):
        store.failures.begin(KEY)
    store.failures.note(another("x").key, "no such layer")
    assert store.failures.refusal(another("x").key) is not None
    assert not store.timing.save(ORIN, bytes(100_000))
    assert files_below(disk / "engines") == before
    found = store.find(RECIPE)  # what is there still runs
    assert found is not None
    assert found.engine == engine_of(RECIPE)


def test_a_damaged_engine_goes_also_when_the_disk_is_full(disk: Path) -> None:
    store = EngineStore(disk / "engines")
    add(store)
    data = bytearray(store.folder.engine(KEY).read_bytes())
    data[0] ^= 1
    with store.folder.engine(KEY).open("r+b") as file:
        file.write(data)
    fill_up(disk)
    with pytest.raises(EngineDamaged):
        store.find(RECIPE)
    assert store.find(RECIPE) is None
    assert len(store.failures.of(KEY)) == 1


def test_a_disk_that_cannot_be_written_still_serves(disk: Path, tmp_path: Path) -> None:
    store = EngineStore(disk / "engines")
    add(store)
    add(store, another("damaged"))
    os.truncate(store.folder.engine(another("damaged").key), 5)
    _remount(disk, "ro")
    try:
        found = store.find(RECIPE)
        assert found is not None
        assert found.engine == engine_of(RECIPE)
        with pytest.raises(
            EngineDamaged, match=r"5 bytes.*it is not used, but stays where it is, because.*Read-only"
        ):
            store.find(another("damaged"))
        assert len(store.entries()) == 2
        for act in (lambda: add(store), store.prune, lambda: store.failures.begin(KEY)):
            with pytest.raises(StoreUnusable, match="make it writable for this user"):
                act()
    finally:
        _remount(disk, "rw")


def _remount(disk: Path, mode: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{mode}", str(disk)], check=True)


def test_a_limit_of_the_process_is_a_full_disk(store: EngineStore) -> None:
    store.folder.make()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(StoreFull, match="File too large"):
            add(store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert files_below(store.folder.path) == {"recent.json"}


def test_two_processes_add_the_same_key_at_once(tmp_path: Path) -> None:
    """Builds are not reproducible: each has its own bytes, and none may stand beside the other's manifest."""
    context = multiprocessing.get_context("spawn")
    engines = [bytes([65 + number]) * (200_000 + number) for number in range(2)]
    workers = [context.Process(target=_add_often, args=(tmp_path / "engines", engine)) for engine in engines]
    for worker in workers:
        worker.start()
    store = EngineStore(tmp_path / "engines")
    seen = set()
    while any(worker.is_alive() for worker in workers):
        found = store.find(RECIPE)
        if found is not None:
            seen.add(found.engine)
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    found = store.find(RECIPE)
    assert found is not None
    assert {found.engine, *seen} <= set(engines)
    assert store.quarantined() == ()
    assert files_below(tmp_path / "engines") == {f"{KEY}.engine", f"{KEY}.json", "recent.json"}


def _add_often(directory: Path, engine: bytes) -> None:
    store = EngineStore(directory)
    for _ in range(6):
        while True:
            try:
                store.add(RECIPE, engine, BUILD)
                break
            except StoreBusy:  # a busy machine is not a defect
                continue
        assert store.find(RECIPE) is not None


def test_garbage_of_killed_processes_goes_with_the_next_engine(store: EngineStore) -> None:
    add(store)
    folder = store.folder
    for name in (f"{'1' * 64}.engine", f"{KEY}.engine.part-0011", f"{KEY}.json.part-0011.part-2233"):
        (folder.path / name).write_bytes(b"x" * 100)
    (folder.holds / "a.part-1").write_bytes(b"x")
    (folder.building / ("2" * 64)).mkdir(parents=True)
    (folder.building / ("2" * 64) / "model.onnx").write_bytes(b"x")
    with store.lock("3" * 64, 0):
        (folder.building / ("3" * 64)).mkdir()
        add(store, another("b"))
        assert (folder.building / ("3" * 64)).exists()  # whose builder lives
    store.prune()
    assert not list(folder.building.iterdir())
    assert not any("part-" in name or name.startswith("1" * 64) for name in files_below(folder.path))


# Locks


def test_a_lock_is_waited_for_and_names_its_holder(store: EngineStore) -> None:
    clock = DeviceClock()
    other = EngineStore(store.folder.path, clock=clock, sleep=clock.sleep)
    with other.lock(KEY, 0):
        clock.passes(93 * 10**9)
        waiting = EngineStore(store.folder.path, clock=clock, sleep=clock.sleep)
        with pytest.raises(StoreBusy) as caught, waiting.lock(KEY, 60):
            pass
        told = f"engine {KEY[:12]} is being built by process {os.getpid()} for 153 s: waited 60 s for it"
        assert str(caught.value) == told
        with pytest.raises(StoreBusy, match="waited 0 s"), waiting.lock(KEY, 60, stop=lambda: True):
            pass
        with waiting.lock(another("b").key, 0):  # another key is another lock
            pass
    with waiting.lock(KEY, 0):
        pass


def test_whoever_waits_gets_the_lock(tmp_path: Path) -> None:
    first, second = EngineStore(tmp_path / "engines"), EngineStore(tmp_path / "engines")
    order: list[str] = []

    def wait() -> None:
        with second.lock(KEY, 60):
            order.append("second")

    with first.lock(KEY, 0):
        waiter = threading.Thread(target=wait)
        waiter.start()
        order.append("first")
    waiter.join()
    assert order == ["first", "second"]


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    locked = context.Event()
    holder = context.Process(target=_hold_for_ever, args=(tmp_path / "engines", locked))
    holder.start()
    assert locked.wait(100)
    store = EngineStore(tmp_path / "engines")
    with pytest.raises(StoreBusy, match=f"process {holder.pid} for"), store.lock(KEY, 0):
        pass
    add(store, another("b"))  # the store itself is free
    assert [entry.key for entry in store.prune().removed] == [another("b").key]
    holder.kill()
    holder.join()
    with store.lock(KEY, 0):
        pass


def _hold_for_ever(directory: Path, locked: threading.Event) -> None:
    with EngineStore(directory).lock(KEY, 0):
        locked.set()
        threading.Event().wait()


def test_what_is_being_built_is_not_pruned(store: EngineStore) -> None:
    add(store)
    with store.lock(KEY, 0):
        pruned = store.prune()
        assert [kept.why for kept in pruned.kept] == [
            f"it is being built or opened by process {os.getpid()} for 0 s"
        ]
    assert [entry.key for entry in store.prune().removed] == [KEY]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["store", KEY])
def test_something_else_in_the_place_of_a_lock(
    store: EngineStore, name: str, odd: Callable[[Path], None]
) -> None:
    store.folder.make()
    odd(store.folder.locks / f"{name}.lock")
    with store.lock(KEY, 0):
        add(store)
        with pytest.raises(StoreBusy), store.lock(KEY, 0):
            pass
    assert store.find(RECIPE) is not None
    assert Path("/etc/passwd").stat().st_size > 0


def test_a_lock_that_was_swept_while_it_was_opened_is_opened_again(
    store: EngineStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.folder.make()
    answers = [False, False, True]
    monkeypatch.setattr("edge_runtime.engines.locks._leads_to", lambda _path, _facts: answers.pop(0))
    with store.lock(KEY, 0):
        assert answers == []


def test_a_file_system_without_locks_is_refused(store: EngineStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("edge_runtime.engines.locks.fcntl.flock", fail)
    with pytest.raises(StoreUnusable, match="No locks available"):
        add(store)


def test_a_holder_that_cannot_be_read_is_another_process(store: EngineStore) -> None:
    with store.lock(KEY, 0):
        for nonsense in (b"", b"[]", b'{"pid": "x"}', b"\xff" * 600):
            (store.folder.locks / f"{KEY}.lock").write_bytes(nonsense)
            with pytest.raises(StoreBusy, match="being built by another process"), store.lock(KEY, 0):
                pass


def test_an_engine_that_no_manifest_may_describe_is_refused(
    store: EngineStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge_runtime.engines.room.MAX_ENGINE_BYTES", 5000)
    with pytest.raises(StoreFull, match="none above 5 KiB is kept"):
        add(store, size=5000)
    assert store.find(RECIPE) is None
