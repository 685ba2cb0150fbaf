"""What `edge-runtime engine list` and `inspect` print: lines for people, plain data for programs.

Names out of a model's graph, and whatever stands in a damaged manifest, are shown: none of it may drive a terminal.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from edge_runtime.document import visible

if TYPE_CHECKING:
    from edge_runtime.engines.listing import Entry
    from edge_runtime.engines.manifest import EngineManifest
    from edge_runtime.engines.quarantine import Case

SHOWN: Final = 12
"""Digits of a key that are shown where one line is for one engine."""

_HEAD: Final = f"{'KEY':12}  {'WEIGHTS':12}  {'PRECISION':12}  {'BATCH':>5}  {'MIB':>6}  {'SM':>5}  TENSORRT"


def list_lines(
    entries: Iterable["Entry"], cases: Iterable["Case"], refused: Mapping[str, str]
) -> Iterator[str]:
    """Engines with who holds them, what is in quarantine, and what is not built for now.

    Args:
        entries: what is stored.
        cases: what was taken out of use.
        refused: why an engine is not built, by its key.
    """
    head = [_HEAD]
    for entry in entries:
        yield from head
        head = []
        yield _row(entry)
        for hold in entry.holds:
            yield visible(f"{'':12}  {hold}")
        if entry.problem is not None:
            yield visible(f"{'':12}  cannot be used: {entry.problem}")
    if head:
        yield "no engine is stored"
    for case in cases:
        key = "unknown" if case.reason is None else case.reason.key[:SHOWN]
        why = "its record cannot be read" if case.reason is None else case.reason.reason
        yield visible(f"{key:12}  in quarantine: {why}")
    for key, why in refused.items():
        yield visible(f"{key[:SHOWN]:12}  not built: {why}")


def inspect_lines(entry: "Entry") -> Iterator[str]:
    """All that is known of one engine."""
    yield f"key           {entry.key}"
    if entry.manifest is not None:
        yield from map(visible, _built(entry.manifest))
    for hold in entry.holds:
        yield visible(f"needed        {hold}")
    if entry.problem is not None:
        yield visible(f"problem       {entry.problem}")


def entry_record(entry: "Entry") -> dict[str, Any]:
    """An engine as plain data."""
    return {
        "key": entry.key,
        "bytes": entry.bytes,
        "problem": entry.problem,
        "holds": [{"model": hold.model, "role": hold.role.value} for hold in entry.holds],
        "manifest": None if entry.manifest is None else entry.manifest.model_dump(mode="json"),
    }


def case_record(case: "Case") -> dict[str, Any]:
    """What lies in quarantine as plain data."""
    return {
        "key": None if case.reason is None else case.reason.key,
        "reason": None if case.reason is None else case.reason.reason,
        "at": None if case.reason is None else case.reason.at,
        "bytes": case.bytes,
    }


def mib(nbytes: int) -> str:
    """A size for a column."""
    return f"{nbytes / (1 << 20):.1f}"


def _row(entry: "Entry") -> str:
    if entry.manifest is None:
        return f"{entry.key[:SHOWN]:12}  {'-':12}  {'-':12}  {'-':>5}  {mib(entry.bytes):>6}  {'-':>5}  -"
    recipe = entry.manifest.recipe
    return (
        f"{entry.key[:SHOWN]:12}  {recipe.weights_sha256[:SHOWN]:12}  {recipe.precision:12}  {recipe.batch:>5}  "
        f"{mib(entry.bytes):>6}  {recipe.machine.sm:>5}  {recipe.machine.tensorrt}"
    )


def _built(manifest: "EngineManifest") -> Iterator[str]:
    """What an engine was built for, and how."""
    recipe, machine, build = manifest.recipe, manifest.recipe.machine, manifest.build
    driver = machine.driver or "unknown"
    yield f"built for     {machine.gpu}, SM {machine.sm}, TensorRT {machine.tensorrt}"
    yield f"              {f'L4T {machine.l4t}' if machine.l4t else f'driver {driver}'}"
    yield f"weights       {recipe.weights_sha256}"
    yield f"precision     {recipe.precision}, {', '.join(recipe.flags)}"
    for label, tensors in (("input", recipe.inputs), ("output", recipe.outputs)):
        for tensor in tensors:
            yield f"{label:13} {tensor}"
    for profile in recipe.profiles:
        yield f"sizes         {profile}"
    for name, digest in recipe.plugins.items():
        yield f"plugin        {name}, sha256 {digest}"
    yield f"built         {manifest.built_at} in {build.seconds:.1f} s, by release {manifest.release}"
    yield f"size          {manifest.engine_bytes} bytes, sha256 {manifest.engine_sha256}"
    scratch = "unknown" if build.device_memory_bytes is None else f"{build.device_memory_bytes} bytes"
    yield f"scratch       {scratch} of device memory"
    for line in build.log:
        yield f"TensorRT said {line}"
