"""What can be wrong with an engine; every error is below `BackendError`, so that the next backend is tried."""

from collections.abc import Sequence

from edge_runtime.errors import BackendError


class EngineError(BackendError):
    """An engine cannot be had, or must not be used."""


class EngineMismatch(EngineError):
    """A stored engine was built for something else than its name says.

    Args:
        field: path of the recipe's field that differs, such as `machine.sm`.
        wanted: what this device or model has, as text.
        found: what the engine was built for, as text.
        text: the sentence; made of the three where there is none.

    Attributes:
        field, wanted, found: as given.
        fields: every field that differs, `field` first.
    """

    def __init__(
        self, field: str, wanted: str, found: str, *, text: str | None = None, fields: Sequence[str] = ()
    ) -> None:
        super().__init__(text or f"engine was built for {field} {found}; wanted is {wanted}")
        self.field, self.wanted, self.found = field, wanted, found
        self.fields = tuple(fields) or (field,)


class EngineDamaged(EngineError):
    """A stored engine or its manifest is not what was written."""


class EngineNewer(EngineError):
    """A newer release wrote it; it is left as it is."""


class EngineDisagrees(EngineError):
    """An engine does not give the answers that its package's golden vectors state."""


class BuildFailed(EngineError):
    """TensorRT could not build an engine."""


class BuildTimeout(BuildFailed):
    """A build took longer than it may."""


class BuildRefused(EngineError):
    """An engine is not built again, because it has failed before."""


class DoesNotFit(EngineError):
    """The model needs more memory than the device has for it."""


class StoreBusy(EngineError):
    """Another process holds what is needed, and did not let go in time."""


class StoreUnusable(EngineError):
    """The store's directory cannot be read or written."""


class StoreFull(StoreUnusable):
    """The disk or the store's quota has no room for an engine.

    Args:
        text: the sentence.
        nbytes: of the engine, where room for so many is all that is missing; else 0.
    """

    def __init__(self, text: str, nbytes: int = 0) -> None:
        super().__init__(text)
        self.nbytes = nbytes
