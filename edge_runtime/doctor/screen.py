"""Facts and findings for people: groups of lines of at most 80 columns."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from edge_runtime.doctor.facts import Facts
from edge_runtime.doctor.findings import PARTS, Finding
from edge_runtime.doctor.jetpack import jetpack_of
from edge_runtime.doctor.rules.tensorrt import full_version

WIDTH = 80
_GIGA = 1 << 30
_LABEL = 10


def screen_lines(facts: Facts, findings: Sequence[Finding]) -> list[str]:
    """The lines: for each part its name, what was found, and what follows from it; a sum at the end."""
    lines: list[str] = []
    for part in PARTS:
        words = [word for word in _words(facts, part) if word]
        own = [finding for finding in findings if finding.part == part]
        if not words and not own:
            continue
        lines += ([""] if lines else []) + [part]
        lines += _wrapped(" · ".join(words), "  ", "  ") if words else []
        for finding in own:
            lines += _wrapped(finding.text, f"  {finding.severity:{_LABEL}}", " " * (_LABEL + 2))
    return [*lines, "", *_wrapped(summary(findings), "", "")]


def summary(findings: Iterable[Finding]) -> str:
    """How many findings of each kind there are."""
    count: Counter[str] = Counter(finding.severity for finding in findings)
    kinds = [("error", "errors"), ("warning", "warnings"), ("note", "notes")]
    told = [f"{count[one]} {one if count[one] == 1 else many}" for one, many in kinds if count[one]]
    if count["error"]:
        return f"{', '.join(told)}: something that is needed is missing"
    return f"all that is needed is there{': ' if told else ''}{', '.join(told)}"


def _wrapped(text: str, first: str, others: str) -> list[str]:
    shown = "".join(character if character.isprintable() else " " for character in text)  # it may be a file's
    return textwrap.wrap(
        shown, WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False
    ) or [first.rstrip()]


def _words(facts: Facts, part: str) -> Iterator[str]:
    if part == "machine":
        yield from _machine(facts)
    elif part == "gpu" and facts.gpu is not None:
        yield facts.gpu.name or "an NVIDIA GPU"
        yield f"driver {facts.gpu.driver}" if facts.gpu.driver else "driver unknown"
        yield (
            f"{facts.gpu.memory_bytes / _GIGA:.1f} GiB of its own"
            if facts.gpu.memory_bytes
            else "shared memory"
        )
    elif part == "tensorrt":
        version = full_version(facts)
        there = version or facts.sees("tensorrt")
        yield f"TensorRT {version or '(version unknown)'}" if there else "no TensorRT"
        yield f"CUDA toolkit {facts.cuda.version}" if facts.cuda.version else "no CUDA toolkit"
    elif part == "onnxruntime":
        shown = ("onnxruntime", "onnxruntime-gpu", "numpy", "opencv", "av")
        yield from (f"{name} {facts.modules[name].version or '?'}" for name in shown if facts.sees(name))
    elif part == "video":
        yield f"GStreamer {facts.video.gstreamer}" if facts.video.gstreamer else "no GStreamer"
        yield from (f"{name} {'yes' if there else 'no'}" for name, there in facts.video.elements.items())
    elif part == "device":
        yield _share("memory", facts.memory.available_bytes, facts.memory.total_bytes, "available")
        yield _share("disk", facts.disk.free_bytes, facts.disk.total_bytes, "free")
        for name, clock in facts.clocks.items():
            if clock.now_mhz is not None:
                limit = "" if clock.allowed_mhz is None else f" of {clock.allowed_mhz:.0f}"
                yield f"{name} {clock.now_mhz:.0f}{limit} MHz"
        if facts.jetson is not None:
            yield f"power mode {facts.jetson.power_mode or 'unknown'}"


def _machine(facts: Facts) -> Iterator[str]:
    machine = facts.machine
    yield machine.model or "unknown machine"
    if facts.jetson is not None:
        release = jetpack_of(facts.jetson.l4t or "")
        yield f"L4T {facts.jetson.l4t or 'unknown'}" + (f" (JetPack {release.name})" if release else "")
    yield machine.system or ""
    yield machine.architecture or ""
    where = " in a virtual environment" if machine.virtual_environment else ""
    seeing = " with the system's packages" if machine.system_site_packages else ""
    yield f"Python {machine.python}{where}{seeing}"


def _share(name: str, part: int | None, whole: int | None, word: str) -> str:
    if part is None or whole is None:
        return f"{name} unknown"
    return f"{name} {part / _GIGA:.1f} of {whole / _GIGA:.1f} GiB {word}"
