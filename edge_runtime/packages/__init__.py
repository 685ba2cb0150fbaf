"""Model packages: manifest, folder or archive, where the weights come from, whether the licence allows it."""

from edge_runtime.packages.fetch import ensure_weights
from edge_runtime.packages.licence import require_licence
from edge_runtime.packages.manifest import ModelManifest
from edge_runtime.packages.package import (
    FileDiffers,
    ManifestInvalid,
    ModelPackage,
    WeightsAbsent,
    open_package,
    pack_package,
    read_manifest,
)
from edge_runtime.packages.recipe import Recipe

__all__ = [
    "FileDiffers",
    "ManifestInvalid",
    "ModelManifest",
    "ModelPackage",
    "Recipe",
    "WeightsAbsent",
    "ensure_weights",
    "open_package",
    "pack_package",
    "read_manifest",
    "require_licence",
]
