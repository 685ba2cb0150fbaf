"""Model packages: manifest, folder or archive, where the weights come from, whether the licence allows it."""

from edge_runtime.packages.archive import pack
from edge_runtime.packages.fetch import ensure_weights
from edge_runtime.packages.licence import require_licence
from edge_runtime.packages.manifest import ModelManifest
from edge_runtime.packages.package import ModelPackage, open_package, read_manifest
from edge_runtime.packages.recipe import Recipe

__all__ = [
    "ModelManifest",
    "ModelPackage",
    "Recipe",
    "ensure_weights",
    "open_package",
    "pack",
    "read_manifest",
    "require_licence",
]
