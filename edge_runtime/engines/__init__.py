"""TensorRT's engines on this device: built here, kept by what they were built for, and proved before they run."""

from edge_runtime.engines.errors import (
    BuildFailed,
    BuildRefused,
    BuildTimeout,
    DoesNotFit,
    EngineDamaged,
    EngineDisagrees,
    EngineError,
    EngineMismatch,
    EngineNewer,
    StoreBusy,
    StoreFull,
    StoreUnusable,
)
from edge_runtime.engines.facts import MachineFacts
from edge_runtime.engines.holds import Hold, Role
from edge_runtime.engines.listing import Entry
from edge_runtime.engines.manifest import BuildFacts, EngineManifest
from edge_runtime.engines.quarantine import Case, Reason
from edge_runtime.engines.quota import DEFAULT_QUOTA_BYTES
from edge_runtime.engines.recipe import (
    RECIPE_FORMAT,
    RECIPE_VERSION,
    Difference,
    EngineRecipe,
    Profile,
    TensorDeclaration,
    differences,
)
from edge_runtime.engines.room import Kept, Pruned, Usage
from edge_runtime.engines.store import EngineStore
from edge_runtime.engines.strikes import Kind, Strike
from edge_runtime.engines.verify import StoredEngine

__all__ = [
    "DEFAULT_QUOTA_BYTES",
    "RECIPE_FORMAT",
    "RECIPE_VERSION",
    "BuildFacts",
    "BuildFailed",
    "BuildRefused",
    "BuildTimeout",
    "Case",
    "Difference",
    "DoesNotFit",
    "EngineDamaged",
    "EngineDisagrees",
    "EngineError",
    "EngineManifest",
    "EngineMismatch",
    "EngineNewer",
    "EngineRecipe",
    "EngineStore",
    "Entry",
    "Hold",
    "Kept",
    "Kind",
    "MachineFacts",
    "Profile",
    "Pruned",
    "Reason",
    "Role",
    "StoreBusy",
    "StoreFull",
    "StoreUnusable",
    "StoredEngine",
    "Strike",
    "TensorDeclaration",
    "Usage",
    "differences",
]
