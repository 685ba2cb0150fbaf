"""Licences: permissive ones run, any other only after a person has accepted it by name."""

from collections.abc import Collection

from edge_runtime.errors import PackageError
from edge_runtime.packages.manifest import ModelManifest


def require_licence(
    manifest: ModelManifest, accepted: Collection[str] = (), *, model: str = "<name>"
) -> None:
    """Refuse a package whose licence is neither permissive nor accepted.

    Args:
        manifest: of the package that is about to run.
        accepted: SPDX ids that a person accepted (`accept_licences` in the configuration).
        model: what the configuration calls the model.

    Raises:
        PackageError: the licence needs a person's acceptance.
    """
    licence = manifest.licence
    if licence.permissive or licence.spdx in accepted:
        return
    known = "its licence is not known" if licence.spdx == "NOASSERTION" else f"it is under {licence.spdx}"
    raise PackageError(
        f"model {manifest.name} may not run: {known} ({licence.evidence}); "
        f"a person who accepts that writes models.{model}.accept_licences: [{licence.spdx}] in the configuration"
    )
