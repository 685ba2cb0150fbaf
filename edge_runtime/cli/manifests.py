"""What the models of a configuration say about themselves, as far as their packages can be read here."""

from edge_runtime.config import LoadedConfig, class_checks, label_checks, variant_checks
from edge_runtime.config.checks import Finding
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.packages import ModelManifest, open_package, read_manifest


def readable_manifests(loaded: LoadedConfig) -> tuple[dict[str, ModelManifest], list[Finding]]:
    """Manifests by the model's name, and a finding for each package that cannot be read.

    Of a folder only the manifest is read: the weights may still have to be fetched.
    """
    manifests: dict[str, ModelManifest] = {}
    unreadable: list[Finding] = []
    for name, model in loaded.config.models.items():
        path = loaded.resolve(model.package)
        try:
            manifests[name] = open_package(path).manifest if path.is_file() else read_manifest(path)
        except EdgeRuntimeError as error:
            unreadable.append((("models", name, "package"), str(error)))
    return manifests, unreadable


def manifest_problems(loaded: LoadedConfig, manifests: dict[str, ModelManifest]) -> list[Finding]:
    """Rules that ask for labels which their model does not know; cameras that it may not see; unfit variants."""
    labels = {name: manifest.labels for name, manifest in manifests.items()}
    classes = {name: manifest.data_classes for name, manifest in manifests.items()}
    return [
        *label_checks(loaded.config, labels),
        *class_checks(loaded.config, classes),
        *variant_checks(loaded.config, labels, classes),
    ]
