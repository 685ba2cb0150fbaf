"""Whether a release may take the place of a configured model, before it is loaded; and codes of errors."""

from edge_runtime.config import class_checks, label_checks
from edge_runtime.config.node import NodeConfig
from edge_runtime.engines.errors import DoesNotFit, EngineDisagrees, EngineError
from edge_runtime.errors import EdgeRuntimeError, PackageError
from edge_runtime.packages.licence import require_licence
from edge_runtime.packages.manifest import ModelManifest
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.problems import UpdateRefused


def why_unfit(config: NodeConfig, name: str, manifest: ModelManifest) -> None:
    """Compare a release's manifest with what the configuration asks of the model.

    Args:
        config: of the device.
        name: of the model in it.
        manifest: of the release.

    Raises:
        UpdateRefused: `labels` where a rule names one that the release does not know, `licence` where nobody has
            accepted it, `bad-package` where cameras see more than the release may.
    """
    for _, text in label_checks(config, {name: manifest.labels}):
        raise UpdateRefused(UpdateCode.LABELS, text)
    for _, text in class_checks(config, {name: manifest.data_classes}):
        raise UpdateRefused(UpdateCode.BAD_PACKAGE, text)
    try:
        require_licence(manifest, config.models[name].accept_licences, model=name)
    except PackageError as error:
        raise UpdateRefused(UpdateCode.LICENCE, str(error)) from error


def why_not(error: EdgeRuntimeError) -> UpdateCode:
    """The code of what kept a package from being opened."""
    if isinstance(error, UpdateRefused):
        return error.code
    if isinstance(error, EngineDisagrees):
        return UpdateCode.GOLDEN_VECTORS
    if isinstance(error, DoesNotFit):
        return UpdateCode.NO_MEMORY
    if isinstance(error, EngineError):
        return UpdateCode.ENGINE_BUILD
    if isinstance(error, PackageError):
        return UpdateCode.BAD_PACKAGE
    return UpdateCode.LOAD
