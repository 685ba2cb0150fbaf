"""The manifest beside an engine: what it was built for, how long it took, and the SHA-256 that it must have."""

import hashlib
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from edge_runtime.engines.errors import EngineDamaged, EngineNewer
from edge_runtime.engines.recipe import EngineRecipe, Sha256, canonical_json
from edge_runtime.engines.records import Record, first_problem

MANIFEST_FORMAT: Final = 1
MAX_MANIFEST_BYTES: Final = 1 << 20

_MOST_LINES: Final = 60
_LONGEST_LINE: Final = 400


def _tail(lines: object) -> object:
    if not isinstance(lines, (list, tuple)) or not all(isinstance(line, str) for line in lines):
        return lines
    return tuple(
        "".join(sign if sign.isprintable() else " " for sign in line)[:_LONGEST_LINE]
        for line in lines[-_MOST_LINES:]
    )


class BuildFacts(Record):
    """What a build was like.

    Attributes:
        seconds: from start to end.
        log: the last lines that TensorRT wrote; longer ones and more of them are cut here.
        device_memory_bytes: what the engine's context needs beside its weights; None where nobody asked.
    """

    seconds: Annotated[float, Field(ge=0)]
    log: Annotated[tuple[str, ...], BeforeValidator(_tail)] = ()
    device_memory_bytes: Annotated[int, Field(ge=0, lt=1 << 63)] | None = None


class EngineManifest(Record):
    """What is known of one engine.

    Attributes:
        recipe: what it was built for.
        engine_sha256: of the engine's bytes.
        engine_bytes: how many there are.
        build: how it went.
        built_at: the wall clock then, ISO 8601; a label.
        clock_synced: whether that clock was synchronised.
        release: of the runtime that built it.
    """

    recipe: EngineRecipe
    engine_sha256: Sha256
    engine_bytes: Annotated[int, Field(gt=0, lt=1 << 40)]
    build: BuildFacts
    built_at: Annotated[str, Field(max_length=64)]
    clock_synced: bool
    release: Annotated[str, Field(max_length=64)]

    def encode(self) -> bytes:
        """The file's bytes; there is only one spelling."""
        content = self.model_dump(mode="json")
        digest = hashlib.sha256(canonical_json(content)).hexdigest()
        return canonical_json({"format": MANIFEST_FORMAT, "manifest": content, "sha256": digest}) + b"\n"


class _Outer(Record):
    format: int
    manifest: EngineManifest
    sha256: Sha256


class _AnyFormat(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")

    format: int


def decode_manifest(data: bytes, called: str) -> EngineManifest:
    """What a manifest's file says; `require_untouched` tells whether it says it in the bytes that were written.

    Args:
        data: all bytes of the file.
        called: its name, for errors.

    Raises:
        EngineNewer: its format is a later one.
        EngineDamaged: it is no manifest.
    """
    try:
        found = _AnyFormat.model_validate_json(data)
        if found.format > MANIFEST_FORMAT:
            raise EngineNewer(
                f"{called} was written by a newer release (format {found.format}, this one reads "
                f"{MANIFEST_FORMAT}) and is left as it is: use that release, or remove the file with its engine"
            )
        return _Outer.model_validate_json(data).manifest
    except ValidationError as error:
        raise EngineDamaged(f"{called} is no engine manifest: {first_problem(error)}") from None


def require_untouched(manifest: EngineManifest, data: bytes, called: str) -> None:
    """Every byte of a manifest's file is the one that was written.

    Raises:
        EngineDamaged: some are not, though it can be read.
    """
    if manifest.encode() != data:
        raise EngineDamaged(f"{called} was changed after it was written")
