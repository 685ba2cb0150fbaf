"""The store: an engine is found by what it was built for, and only when every byte is the one that was written."""

import json
import os
import random
from pathlib import Path

import pytest

from edge_runtime.engines import (
    BuildFacts,
    BuildFailed,
    BuildRefused,
    EngineDamaged,
    EngineMismatch,
    EngineNewer,
    EngineRecipe,
    EngineStore,
    MachineFacts,
    Profile,
    Role,
    StoreFull,
    TensorDeclaration,
)
from edge_runtime.errors import BackendError
from tests.rigs.engine_files import (
    BUILD,
    HOUR_NS,
    ORIN,
    THOR,
    DeviceClock,
    add,
    another,
    edit_manifest,
    engine_of,
    files_below,
    on_machine,
    recipe_for,
)

RECIPE = recipe_for()
KEY = RECIPE.key


@pytest.fixture
def clock() -> DeviceClock:
    return DeviceClock()


@pytest.fixture
def store(tmp_path: Path, clock: DeviceClock) -> EngineStore:
    return EngineStore(tmp_path / "engines", clock=clock, sleep=clock.sleep)


def test_what_was_added_is_found(store: EngineStore) -> None:
    assert store.find(RECIPE) is None
    added = add(store)
    found = store.find(RECIPE)
    assert found == added
    assert found is not None
    assert found.engine == engine_of(RECIPE)
    assert found.manifest.recipe == RECIPE
    assert found.manifest.build == BUILD
    assert found.manifest.built_at == "2023-11-14T22:13:20.000Z"
    assert files_below(store.folder.path) == {f"{KEY}.engine", f"{KEY}.json", "recent.json"}


def test_nothing_is_made_by_looking(store: EngineStore) -> None:
    assert store.find(RECIPE) is None
    assert store.entries() == []
    assert store.inspect(KEY) is None
    assert store.quarantined() == ()
    assert store.failures.refusal(KEY) is None
    assert store.timing.read(ORIN) is None
    assert not store.folder.path.exists()


def test_only_the_owner_reads_it(store: EngineStore) -> None:
    add(store)
    assert store.folder.path.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in store.folder.path.glob(f"{KEY}*")} == {0o600}


def test_two_models_of_one_architecture_get_each_its_own(store: EngineStore) -> None:
    add(store, another("helmets"))
    add(store, another("vests"))
    for name in ("helmets", "vests"):
        found = store.find(another(name))
        assert found is not None
        assert found.engine == engine_of(another(name))


def test_an_engine_is_replaced_by_a_newer_build(store: EngineStore) -> None:
    add(store)
    store.add(RECIPE, b"a better one", BuildFacts(seconds=1.0))
    found = store.find(RECIPE)
    assert found is not None
    assert found.engine == b"a better one"


def test_an_empty_engine_is_no_engine(store: EngineStore) -> None:
    with pytest.raises(BuildFailed, match="without a single byte"):
        store.add(RECIPE, b"", BUILD)
    assert store.find(RECIPE) is None


def test_a_long_log_keeps_its_end(store: EngineStore) -> None:
    log = tuple(f"line {number}\x1b[31m" for number in range(1000))
    manifest = store.add(RECIPE, b"engine", BuildFacts(seconds=1.0, log=log)).manifest
    assert len(manifest.build.log) == 60
    assert manifest.build.log[-1] == "line 999 [31m"
    assert store.find(RECIPE) is not None


# What lies under a name and is something else


def _stand_in(store: EngineStore, other: EngineRecipe) -> None:
    """Another recipe's engine and manifest, whole and sound, under the wanted one's name."""
    add(store, other)
    store.folder.engine(other.key).rename(store.folder.engine(KEY))
    store.folder.manifest(other.key).rename(store.folder.manifest(KEY))


INPUT_320 = TensorDeclaration(name="images", dtype="float32", shape=(None, 3, 320, 320))


@pytest.mark.parametrize(
    ("other", "field", "wanted", "found"),
    [
        (on_machine(sm="11.0"), "machine.sm", "8.7", "11.0"),
        (on_machine(gpu="Orin NX"), "machine.gpu", "Orin", "Orin NX"),
        (on_machine(tensorrt="10.16.2.10"), "machine.tensorrt", "10.3.0.26", "10.16.2.10"),
        (on_machine(l4t="36.5.0"), "machine.l4t", "36.4.3", "36.5.0"),
        (on_machine(driver=None), "machine.driver", "540.4.0", "unknown"),
        (
            recipe_for(inputs=(INPUT_320,)),
            "inputs",
            "images float32 ?x3x416x416",
            "images float32 ?x3x320x320",
        ),
        (
            recipe_for(profiles=(Profile(input="images", minimum=(1,), optimum=(1,), maximum=(1,)),)),
            "profiles",
            "images 1x3x416x416 to 4x3x416x416, best 2x3x416x416",
            "images 1 to 1, best 1",
        ),
        (recipe_for(precision="fp16"), "precision", "as-exported", "fp16"),
        (recipe_for(flags=()), "flags", "STRONGLY_TYPED; TF32", "none"),
        (recipe_for(batch=1), "batch", "4", "1"),
        (recipe_for(builder=0), "builder", "1", "0"),
        (recipe_for(plugins={"a.so": "0" * 64}), "plugins", "none", f"a.so {'0' * 64}"),
    ],
)
def test_an_engine_for_something_else_is_named_quarantined_and_built_once(
    store: EngineStore, other: EngineRecipe, field: str, wanted: str, found: str
) -> None:
    _stand_in(store, other)
    with pytest.raises(EngineMismatch) as caught:
        store.find(RECIPE)
    error = caught.value
    assert (error.field, error.wanted, error.found) == (field, wanted, found)
    assert wanted in str(error)
    assert found in str(error)
    assert str(error).endswith("it is built anew")
    assert store.find(RECIPE) is None  # no second error: it is gone
    (case,) = store.quarantined()
    assert (case.path / "engine").read_bytes() == engine_of(other)
    assert case.reason is not None
    assert case.reason.key == KEY
    assert found in case.reason.reason
    assert store.failures.refusal(KEY) is None
    add(store)
    assert store.find(RECIPE) is not None


def test_a_mismatch_reads_as_a_sentence(store: EngineStore) -> None:
    _stand_in(
        store,
        recipe_for(MachineFacts(gpu="Thor", sm="11.0", tensorrt="10.13.3.9", l4t="36.4.3", driver="540.4.0")),
    )
    with pytest.raises(EngineMismatch) as caught:
        store.find(RECIPE)
    assert str(caught.value) == (
        f"engine {KEY[:12]}: built for SM 11.0, this device has SM 8.7; "
        "built for GPU Thor, this device has GPU Orin; "
        "built for TensorRT 10.13.3.9, this device has TensorRT 10.3.0.26: it is built anew"
    )
    assert caught.value.fields == ("machine.sm", "machine.gpu", "machine.tensorrt")


@pytest.mark.parametrize(
    ("place", "value", "field"),
    [
        (("machine", "gpu"), "Orin NX", "machine.gpu"),
        (("machine", "sm"), "8.6", "machine.sm"),
        (("machine", "tensorrt"), "10.3.0.30", "machine.tensorrt"),
        (("workspace_bytes",), 1, "workspace_bytes"),
        (("inputs",), [{"name": "images", "dtype": "float32", "shape": [1, 3, 64, 64]}], "inputs"),
    ],
)
def test_a_manifest_that_was_edited_names_what_differs(
    store: EngineStore, place: tuple[str, ...], value: object, field: str
) -> None:
    add(store)
    edit_manifest(store.folder.manifest(KEY), "manifest", "recipe", *place, value=value)
    with pytest.raises(EngineMismatch) as caught:
        store.find(RECIPE)
    assert caught.value.field == field


def test_an_edited_manifest_whose_recipe_is_right_is_still_noticed(store: EngineStore) -> None:
    add(store)
    edit_manifest(store.folder.manifest(KEY), "manifest", "build", "seconds", value=0.5)
    with pytest.raises(EngineDamaged, match="changed after it was written"):
        store.find(RECIPE)


def test_every_flipped_byte_of_the_engine_is_noticed(store: EngineStore, clock: DeviceClock) -> None:
    engine = engine_of(RECIPE, 257)
    for place in (0, 1, 128, 255, 256):
        store.add(RECIPE, engine, BUILD)
        path = store.folder.engine(KEY)
        data = bytearray(path.read_bytes())
        data[place] ^= 0x10
        path.write_bytes(data)
        with pytest.raises(EngineDamaged, match="its bytes were changed"):
            store.find(RECIPE)
        assert store.find(RECIPE) is None


def test_every_flipped_bit_of_the_manifest_is_noticed(store: EngineStore) -> None:
    add(store)
    path = store.folder.manifest(KEY)
    whole, engine = path.read_bytes(), store.folder.engine(KEY).read_bytes()
    for place in range(0, len(whole), 7):
        data = bytearray(whole)
        data[place] ^= 1 << (place % 8)
        path.write_bytes(data)
        store.folder.engine(KEY).write_bytes(engine)
        with pytest.raises((EngineDamaged, EngineMismatch, EngineNewer)) as caught:
            store.find(RECIPE)
        assert str(caught.value).count("\n") == 0
        if not isinstance(caught.value, EngineNewer):
            assert not path.exists()
    assert len(store.quarantined()) <= 8


def _damaged(data: bytes, chance: random.Random) -> bytes:
    """The bytes with one thing wrong that a disk, a transfer or a hand may do to them."""
    at, other = chance.randrange(len(data)), chance.randrange(len(data))
    kind = chance.choice(["bit", "byte", "cut", "grown", "zeros", "doubled", "moved"])
    if kind in ("bit", "byte"):
        flip = 1 << chance.randrange(8) if kind == "bit" else chance.randrange(1, 256)
        return data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :]
    if kind == "cut":
        return data[:at]
    if kind == "grown":
        return data + chance.randbytes(1 + other % 99)
    if kind == "zeros":
        return data[:at] + bytes(len(data[at : at + 512])) + data[at + 512 :]
    if kind == "doubled":
        return data[:at] + data[at : at + 64] + data[at:]
    low, high = sorted((at, other))
    return data[:low] + data[high:] + data[low:high]


@pytest.mark.parametrize("which", ["engine", "manifest", "timing"])
def test_damage_of_any_kind_at_any_place_is_noticed(store: EngineStore, which: str) -> None:
    chance = random.Random(which)
    for _ in range(60):
        store.failures.forget()
        add(store)
        assert store.timing.save(ORIN, b"what was measured" * 20)
        (timing,) = store.folder.timing.iterdir()
        path = {"engine": store.folder.engine(KEY), "manifest": store.folder.manifest(KEY), "timing": timing}[
            which
        ]
        whole = path.read_bytes()
        spoilt = _damaged(whole, chance)
        path.write_bytes(spoilt)
        if which == "timing" or spoilt == whole:
            assert (store.timing.read(ORIN) is None) == (spoilt != whole)
            assert store.find(RECIPE) is not None
            continue
        with pytest.raises((EngineDamaged, EngineMismatch, EngineNewer)) as caught:
            store.find(RECIPE)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 1000
        if isinstance(caught.value, EngineNewer):
            path.unlink()
            continue
        assert not path.exists()
        assert store.find(RECIPE) is None
        assert store.failures.refusal(KEY) is None, "it is built once more"


@pytest.mark.parametrize("size", [0, 1, 4095, 4097, 1 << 20])
def test_an_engine_of_another_size_is_damaged(store: EngineStore, size: int) -> None:
    add(store)
    os.truncate(store.folder.engine(KEY), size)
    with pytest.raises(EngineDamaged, match=f"{size} bytes"):
        store.find(RECIPE)
    assert store.find(RECIPE) is None


@pytest.mark.parametrize("size", [0, 1, 20, 400])
def test_a_manifest_that_was_cut_off_is_damaged(store: EngineStore, size: int) -> None:
    add(store)
    os.truncate(store.folder.manifest(KEY), size)
    with pytest.raises(EngineDamaged, match="no engine manifest"):
        store.find(RECIPE)
    assert store.find(RECIPE) is None


def test_an_engine_that_is_missing_beside_its_manifest_is_damaged(store: EngineStore) -> None:
    add(store)
    store.folder.engine(KEY).unlink()
    with pytest.raises(EngineDamaged, match="missing beside its manifest"):
        store.find(RECIPE)
    assert store.find(RECIPE) is None


def test_a_manifest_of_a_newer_release_is_left_alone(store: EngineStore) -> None:
    add(store)
    path = store.folder.manifest(KEY)
    newer = {"format": 2, "sums": ["new things"], "manifest": {"of": "another kind"}}
    path.write_bytes(json.dumps(newer).encode())
    before = path.read_bytes()
    for _ in range(3):
        with pytest.raises(EngineNewer, match=r"newer release \(format 2, this one reads 1\)"):
            store.find(RECIPE)
    with pytest.raises(EngineNewer):
        add(store)
    with pytest.raises(EngineNewer):
        store.verify(KEY)
    (entry,) = store.entries()
    assert entry.newer
    assert entry.problem is not None
    (kept,) = store.prune().kept
    assert kept.why == "a newer release wrote it"
    assert path.read_bytes() == before
    assert store.folder.engine(KEY).read_bytes() == engine_of(RECIPE)
    assert store.quarantined() == ()


def test_errors_lead_to_the_next_backend() -> None:
    for kind in (
        EngineMismatch("a", "b", "c"),
        EngineDamaged("x"),
        EngineNewer("x"),
        StoreFull("x"),
        BuildRefused("x"),
    ):
        assert isinstance(kind, BackendError)
    assert (
        str(EngineMismatch("machine.sm", "11.0", "8.7"))
        == "engine was built for machine.sm 8.7; wanted is 11.0"
    )


# No loop


def test_the_second_time_an_engine_is_taken_out_it_is_not_built_again(
    store: EngineStore, clock: DeviceClock, tmp_path: Path
) -> None:
    builds = 0
    for _start in range(20):
        again = EngineStore(tmp_path / "engines", clock=clock, sleep=clock.sleep)
        try:
            found = again.find(RECIPE)
        except EngineDamaged:
            found = None
        if found is None and again.failures.refusal(KEY) is None:
            again.failures.begin(KEY)
            add(again)
            builds += 1
        if again.folder.engine(KEY).exists():
            os.truncate(again.folder.engine(KEY), 10)  # a disk that damages whatever it is given
        clock.reboot()
    assert builds == 2  # the first one and one rebuild
    why = store.failures.refusal(KEY)
    assert why is not None
    assert why.startswith("its engines were taken out of use 2 times: ")
    assert "has 10 bytes" in why
    clock.passes(25 * HOUR_NS)
    assert store.failures.refusal(KEY) is None


def test_the_error_says_when_it_is_not_built_again(store: EngineStore) -> None:
    for told in (
        "it is built anew",
        "it is not built again, because its engines were taken out of use 2 times",
    ):
        add(store)
        os.truncate(store.folder.engine(KEY), 10)
        with pytest.raises(EngineDamaged, match=told):
            store.find(RECIPE)
    with pytest.raises(BuildRefused, match="taken out of use 2 times"):
        store.failures.begin(KEY)


def test_quarantine_by_name_counts_too(store: EngineStore) -> None:
    stored = add(store)
    store.quarantine(KEY, "the golden vectors disagree", engine_sha256=stored.manifest.engine_sha256)
    assert store.find(RECIPE) is None
    assert store.failures.refusal(KEY) is None
    add(store)
    store.quarantine(KEY, "the golden vectors disagree again")
    assert store.failures.refusal(KEY) is not None
    assert [case.reason and case.reason.reason for case in store.quarantined()] == [
        "the golden vectors disagree",
        "the golden vectors disagree again",
    ]
    assert store.empty_quarantine() == 2
    assert store.quarantined() == ()


def test_a_new_engine_is_not_taken_out_for_the_old_one(store: EngineStore) -> None:
    stale = add(store).manifest.engine_sha256
    store.add(RECIPE, b"a better one", BUILD)
    store.quarantine(KEY, "the old one was refused", engine_sha256=stale)
    assert store.find(RECIPE) is not None
    assert store.quarantined() == ()


def test_a_key_is_never_a_path(store: EngineStore) -> None:
    for wrong in ("", "../../etc/passwd", "A" * 64, "0" * 63, f"{'0' * 64}\n"):
        with pytest.raises(ValueError, match="64 lower-case"):
            store.quarantine(wrong, "why")
        with pytest.raises(ValueError, match="64 lower-case"):
            store.inspect(wrong)
        with pytest.raises(ValueError, match="64 lower-case"):
            store.lock(wrong, 0)


# Listing


def test_everything_is_listed_also_what_cannot_be_read(store: EngineStore) -> None:
    recipes = [another(name) for name in "abcd"]
    for recipe in recipes:
        add(store, recipe)
    assert store.find(recipes[0]) is not None  # used last
    store.folder.manifest(recipes[1].key).write_bytes(b"{")
    os.truncate(store.folder.engine(recipes[2].key), 3)
    store.hold("gate", recipes[3].key, Role.RUNNING)
    entries = store.entries()
    assert [entry.key for entry in entries] == [recipes[at].key for at in (1, 2, 3, 0)]
    assert [entry.problem is None for entry in entries] == [False, False, True, True]
    assert entries[0].manifest is None
    assert "has 3 bytes, its manifest says 4096" in str(entries[1].problem)
    assert [hold.model for hold in entries[2].holds] == ["gate"]
    assert store.inspect(recipes[3].key) == entries[2]
    assert store.quarantined() == ()  # looking moves nothing


def test_a_renamed_engine_is_seen_without_its_recipe(store: EngineStore) -> None:
    _stand_in(store, recipe_for(THOR))
    (entry,) = store.entries()
    assert "it was copied or renamed" in str(entry.problem)
    with pytest.raises(EngineDamaged, match="copied or renamed"):
        store.verify(KEY)


def test_usage_adds_up(store: EngineStore) -> None:
    add(store, size=5000)
    store.timing.save(ORIN, b"x" * 300)
    add(store, another("b"), size=100)
    store.quarantine(another("b").key, "for the test")
    usage = store.usage()
    assert usage.engines == 5000 + store.folder.manifest(KEY).stat().st_size
    assert usage.timing > 300
    assert usage.quarantine > 100
    assert usage.free is not None
