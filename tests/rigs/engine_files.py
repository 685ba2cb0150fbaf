"""Recipes, engines and stores for tests: an engine is a few kilobytes here, and the store does not know better."""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edge_runtime.clock import NS_PER_S, WallLabel
from edge_runtime.engines import (
    BuildFacts,
    EngineRecipe,
    EngineStore,
    MachineFacts,
    Profile,
    StoredEngine,
    TensorDeclaration,
)

ORIN = MachineFacts(gpu="Orin", sm="8.7", tensorrt="10.3.0.26", l4t="36.4.3", driver="540.4.0")
THOR = MachineFacts(gpu="Thor", sm="11.0", tensorrt="10.13.3.9", l4t="38.4.0", driver="580.00")

BUILD = BuildFacts(seconds=93.5, log=("[I] engine generation completed",), device_memory_bytes=18 << 20)

HOUR_NS = 3600 * NS_PER_S


@dataclass
class DeviceClock:
    """A device's clocks in the hand of a test."""

    boottime: int = 100 * NS_PER_S
    unix: int = 1_700_000_000 * NS_PER_S
    synced: bool = True
    boot_id: str = "boot-1"

    def monotonic_ns(self) -> int:
        return self.boottime

    def boottime_ns(self) -> int:
        return self.boottime

    def wall(self) -> WallLabel:
        return WallLabel(self.unix, self.synced, self.boot_id)

    def passes(self, ns: int) -> None:
        self.boottime += ns
        self.unix += ns

    def sleep(self, seconds: float) -> None:
        self.passes(round(seconds * NS_PER_S))

    def reboot(self, *, off_ns: int = 60 * NS_PER_S, up_ns: int = 30 * NS_PER_S) -> None:
        self.unix += off_ns + up_ns
        self.boottime = up_ns
        self.boot_id = f"boot-{int(self.boot_id.removeprefix('boot-')) + 1}"


def recipe_for(machine: MachineFacts = ORIN, **changes: Any) -> EngineRecipe:
    """The recipe of a small detector on a machine."""
    usual: dict[str, Any] = {
        "weights_sha256": hashlib.sha256(b"yolox_nano").hexdigest(),
        "machine": machine,
        "precision": "as-exported",
        "inputs": (TensorDeclaration(name="images", dtype="float32", shape=(None, 3, 416, 416)),),
        "outputs": (TensorDeclaration(name="output", dtype="float32", shape=(None, 3549, 85)),),
        "profiles": (
            Profile(
                input="images", minimum=(1, 3, 416, 416), optimum=(2, 3, 416, 416), maximum=(4, 3, 416, 416)
            ),
        ),
        "batch": 4,
        "flags": ("STRONGLY_TYPED", "TF32"),
        "workspace_bytes": 256 << 20,
    }
    return EngineRecipe(**{**usual, **changes})


def another(name: str, machine: MachineFacts = ORIN) -> EngineRecipe:
    """The recipe of another model of the same architecture: only its weights differ."""
    return recipe_for(machine, weights_sha256=hashlib.sha256(name.encode()).hexdigest())


def on_machine(machine: MachineFacts = ORIN, **changes: Any) -> EngineRecipe:
    """The usual recipe on a machine that differs in something."""
    return recipe_for(replace(machine, **changes))


def engine_of(recipe: EngineRecipe, size: int = 4096) -> bytes:
    """Bytes that stand for the engine of a recipe."""
    seed = recipe.key.encode()
    return (seed * (size // len(seed) + 1))[:size]


def add(store: EngineStore, recipe: EngineRecipe | None = None, size: int = 4096) -> StoredEngine:
    """Put the engine of a recipe into a store."""
    recipe = recipe or recipe_for()
    return store.add(recipe, engine_of(recipe, size), BUILD)


def files_below(folder: Path) -> set[str]:
    """Every file, by its path in the folder, but for locks and folders."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if not (path.is_dir() and not path.is_symlink()) and path.parent.name != "locks"
    }


def edit_manifest(path: Path, *place: str, value: object) -> None:
    """Change one value in a manifest, and leave all else as it is."""
    content = json.loads(path.read_bytes())
    inner = content
    for name in place[:-1]:
        inner = inner[name]
    assert place[-1] in inner
    inner[place[-1]] = value
    path.write_bytes(json.dumps(content, sort_keys=True, separators=(",", ":")).encode() + b"\n")
