"""The redactor that a configuration asks for, with its model loaded where it needs one."""

from dataclasses import dataclass
from typing import Protocol

from edge_runtime.config import LoadedConfig
from edge_runtime.config.delivery import BlurRedaction, DeliveryConfig, RegionsRedaction
from edge_runtime.errors import ConfigError, EdgeRuntimeError
from edge_runtime.gate.redaction import RedactionFailed, Redactor, WholeBlur
from edge_runtime.gate.regions import RegionRedactor
from edge_runtime.packages import open_package, require_licence
from edge_runtime.perception.backends import load_backend
from edge_runtime.perception.detector import Detector


class _Closes(Protocol):
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class OpenRedactor:
    """A redactor and what it holds.

    Attributes:
        redactor: belongs to one thread.
        backend: its model, or None.
    """

    redactor: Redactor
    backend: _Closes | None = None

    def close(self) -> None:
        """Free the model; the redactor fails from then on."""
        if self.backend is not None:
            self.backend.close()


WHOLE = "the whole crop was blurred: no model that finds regions is configured"
UNKNOWN = "the whole crop was blurred: the configuration that says how cannot be read"


class ConfiguredRedactor:
    """Redacts as a configuration asks, for who redacts now and then. Its model is loaded with the first crop.

    Args:
        loaded: the configuration; None where it cannot be read: then the whole crop is blurred, which hides most.

    Attributes:
        how: what is done to a crop, a sentence for the person who asked.
    """

    def __init__(self, loaded: LoadedConfig | None) -> None:
        self._loaded = loaded
        self._opened: OpenRedactor | None = None
        settings = None if loaded is None else (loaded.config.delivery or DeliveryConfig()).redaction
        if settings is None:
            self.how = UNKNOWN
        elif isinstance(settings, BlurRedaction):
            self.how = WHOLE
        else:
            self.how = f"what the model {settings.model} found was painted over"

    def redact(self, jpeg: bytes) -> bytes:
        """The redacted crop as JPEG.

        Raises:
            RedactionFailed: the model cannot be loaded, failed, or found nothing.
        """
        if self._opened is None:
            try:
                self._opened = (
                    OpenRedactor(WholeBlur()) if self._loaded is None else open_redactor(self._loaded)
                )
            except EdgeRuntimeError as error:
                raise RedactionFailed(f"the redaction model cannot be used: {error}") from error
        return self._opened.redactor.redact(jpeg)

    def close(self) -> None:
        """Free the model."""
        if self._opened is not None:
            self._opened.close()


def open_redactor(loaded: LoadedConfig) -> OpenRedactor:
    """The redactor of the configuration's `delivery` section.

    A model of its own is loaded even where a camera uses the same package: the gate never waits for a lane. ONNX
    Runtime runs it: a crop now and then is worth no engine.

    Raises:
        PackageError: the package does not open, or its licence was not accepted.
        BackendError: the model does not load.
        ConfigError: it does not know a label that must be hidden.
    """
    delivery = loaded.config.delivery or DeliveryConfig()
    settings = delivery.redaction
    if isinstance(settings, BlurRedaction):
        return OpenRedactor(WholeBlur())
    return _open_regions(loaded, settings)


def _open_regions(loaded: LoadedConfig, settings: RegionsRedaction) -> OpenRedactor:
    model = loaded.config.models[settings.model]
    package = open_package(loaded.resolve(model.package))
    require_licence(package.manifest, model.accept_licences, model=settings.model)
    known = package.manifest.labels
    unknown = [label for label in settings.labels if label not in known]
    if unknown:
        raise ConfigError(f"delivery.redaction.labels: the model {settings.model} does not know {unknown[0]}")
    wanted = [index for index, label in enumerate(known) if not settings.labels or label in settings.labels]
    backend = load_backend(
        package.weights,
        providers=tuple(provider for provider in model.providers if provider != "tensorrt") or ("cpu",),
        require_gpu=model.require_gpu and "cuda" in model.providers,
        threads=max(1, model.threads),
    )
    try:
        detector = Detector(package, backend, score=settings.min_score)
    except BaseException:
        backend.close()
        raise
    redactor = RegionRedactor(
        detector,
        wanted,
        margin=settings.margin,
        nothing_found=settings.nothing_found,
        timeout_s=settings.timeout,
    )
    return OpenRedactor(redactor, backend)
