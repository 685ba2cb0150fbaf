"""The machine, its JetPack, its Python and its GPU."""

from collections.abc import Iterator

from edge_runtime.doctor.facts import Facts, JetsonFacts
from edge_runtime.doctor.findings import Finding
from edge_runtime.doctor.jetpack import is_too_old, jetpack_of
from edge_runtime.doctor.needs import Needs

_OLDEST_PYTHON, _NEWEST_PYTHON = (3, 10), (3, 13)


def machine(facts: Facts, needs: Needs) -> Iterator[Finding]:
    """JetPack and Python."""
    if facts.jetson is not None:
        yield from _jetpack(facts, facts.jetson, needs)
    version = facts.machine.python or ""
    parts = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if len(parts) == 2 and not _OLDEST_PYTHON <= parts <= _NEWEST_PYTHON:
        yield Finding(
            "warning", "machine", f"this runtime is for Python 3.10 to 3.13, and this one is {version}"
        )
    elif facts.jetson is not None:
        yield from _jetson_python(facts, needs, ".".join(str(part) for part in parts))


def _jetpack(facts: Facts, jetson: JetsonFacts, needs: Needs) -> Iterator[Finding]:
    if jetson.l4t is None:
        yield Finding(
            "warning",
            "machine",
            f"the release of L4T is not known ({facts.unknown.get('jetson.l4t', 'no reason')}), so that nothing "
            "can be said of its TensorRT: look into /etc/nv_tegra_release",
        )
        return
    release = jetpack_of(jetson.l4t)
    if is_too_old(jetson.l4t):
        yield Finding(
            needs.missing("tensorrt", facts),
            "machine",
            f"L4T {jetson.l4t} is JetPack 5 or older, which this runtime does not support: flash JetPack 6.1 or "
            "later",
        )
    elif release is None:
        yield Finding(
            "note",
            "machine",
            f"L4T {jetson.l4t} is a release that this runtime does not know: it was written for JetPack 6.1 to 7.2",
        )
    elif not release.usable:
        yield Finding(
            needs.missing("tensorrt", facts),
            "machine",
            f"JetPack {release.name} (L4T {jetson.l4t}) has TensorRT {release.tensorrt}, which this runtime does "
            "not use: upgrade to JetPack 6.1 or later",
        )
    else:
        yield Finding(
            "ok",
            "machine",
            f"JetPack {release.name} (L4T {jetson.l4t}) brings TensorRT {release.tensorrt} and CUDA {release.cuda}",
        )


def _jetson_python(facts: Facts, needs: Needs, running: str) -> Iterator[Finding]:
    system = facts.machine.system_python
    if system is not None and running and running != system:
        yield Finding(
            needs.missing("tensorrt", facts),
            "machine",
            f"JetPack's TensorRT is built for Python {system}, and this environment has Python {running}: make it "
            "anew with /usr/bin/python3 -m venv --system-site-packages",
        )


def _driver_says(facts: Facts) -> str:
    """What nvidia-smi said where it is installed and failed."""
    reason = facts.unknown.get("gpu", "")
    return f" ({reason})" if "failed" in reason else ""


def gpu(facts: Facts, needs: Needs) -> Iterator[Finding]:
    """Whether there is one, and whether its driver is known."""
    wanted = "tensorrt" if "tensorrt" in needs.any else "cuda"
    if facts.gpu is None:
        asked = needs.missing(wanted, facts)
        if wanted in needs.proved:
            yield Finding(
                "note", "gpu", "a model runs on a GPU that shows itself neither in /proc nor by nvidia-smi"
            )
            return
        yield Finding(
            asked,
            "gpu",
            f"there is no NVIDIA GPU, or its driver is not loaded{_driver_says(facts)}: models run on the CPU"
            if asked == "note"
            else "a model asks for a GPU, and there is no NVIDIA GPU or its driver is not loaded"
            f"{_driver_says(facts)}: install the driver, or ask for cpu",
        )
        return
    name, capability = facts.gpu.name or "an NVIDIA GPU", facts.gpu.compute_capability
    if capability is not None:
        yield Finding("ok", "gpu", f"{name} has compute capability {capability}")
    else:
        yield Finding(
            "note",
            "gpu",
            f"the compute capability of {name} is not known "
            f"({facts.unknown.get('gpu.compute_capability', 'no reason')})",
        )
    if facts.jetson is None and facts.gpu.driver is None:
        yield Finding(
            needs.missing(wanted, facts),
            "gpu",
            f"the driver of {name} does not answer ({facts.unknown.get('gpu.driver', 'no reason')}): "
            "install it and restart",
        )
