"""Decoding, power, clock, memory and disk."""

from collections.abc import Iterator

from edge_runtime.doctor.facts import Facts, JetsonFacts
from edge_runtime.doctor.findings import Finding
from edge_runtime.doctor.needs import Needs

_DECODER = "nvv4l2decoder"
_LITTLE_MEMORY = 1 << 30
_LITTLE_DISK = 2 << 30
_FULL = 0.05
_HELD_BACK = 0.95
_GIGA = 1 << 30


def video(facts: Facts, needs: Needs) -> Iterator[Finding]:
    """GStreamer, where a pipeline is configured or the machine is a Jetson."""
    jetson, elements = facts.jetson is not None, facts.video.elements
    if needs.gstreamer and not facts.sees("gi"):
        yield Finding(
            "error",
            "video",
            "a camera is a GStreamer pipeline, and Python's gi is not in this environment: sudo apt install "
            "python3-gi, and an environment with --system-site-packages",
        )
    if facts.video.gstreamer is None:
        yield Finding(
            "error" if needs.gstreamer else "note",
            "video",
            f"GStreamer is not there ({facts.unknown.get('video.gstreamer', 'no reason')}): CSI cameras and a "
            "Jetson's hardware decoder need it, sudo apt install gstreamer1.0-tools gstreamer1.0-plugins-good "
            "gstreamer1.0-plugins-bad gstreamer1.0-libav",
        )
        return
    absent = sorted(name for name in needs.elements if elements.get(name) is False)
    if absent:
        bring = "sudo apt install nvidia-l4t-gstreamer" if jetson else "install the plugins that bring them"
        yield Finding(
            "error", "video", f"a pipeline names {', '.join(absent)}, which GStreamer does not have: {bring}"
        )
    if jetson and elements.get(_DECODER) is False and _DECODER not in absent:
        yield Finding(
            "warning",
            "video",
            f"GStreamer has no {_DECODER}, so that video is decoded by the processors: sudo apt install "
            "nvidia-l4t-gstreamer",
        )
    elif jetson and elements.get(_DECODER):
        yield Finding("ok", "video", f"the hardware decoder is there ({_DECODER})")
    elif not absent:
        yield Finding(
            "note" if _DECODER not in elements else "ok",
            "video",
            "video is decoded by the processors: a hardware decoder is looked for on a Jetson only",
        )


def device(facts: Facts, needs: Needs) -> Iterator[Finding]:
    """What else decides how well a device runs."""
    if facts.jetson is not None:
        yield from _power(facts, facts.jetson)
    yield from _clocks(facts)
    if facts.clock_synced is False:
        yield Finding(
            "warning",
            "device",
            "the clock is not synchronised, so that the times of events cannot be trusted: sudo timedatectl "
            "set-ntp true",
        )
    elif facts.clock_synced:
        yield Finding("ok", "device", "the clock is synchronised")
    available = facts.memory.available_bytes
    if available is not None and available < _LITTLE_MEMORY:
        yield Finding(
            "warning",
            "device",
            f"{available / _GIGA:.1f} GiB of memory are available: a model and the building of its engine need "
            "more, end what is not needed (the desktop of a Jetson takes about 1 GiB)",
        )
    yield from _disk(facts, needs)


def _power(facts: Facts, jetson: JetsonFacts) -> Iterator[Finding]:
    mode = jetson.power_mode
    if mode is None:
        yield Finding(
            "note",
            "device",
            f"the power mode is not known ({facts.unknown.get('jetson.power_mode', 'no reason')}): "
            "sudo nvpmodel -q",
        )
        return
    if mode.startswith("MAXN"):
        yield Finding("ok", "device", f"the power mode is {mode}")
        return
    best = next((name for name in ("MAXN_SUPER", "MAXN") if name in jetson.power_modes), None)
    advice = "" if best is None else f": sudo nvpmodel -m {jetson.power_modes[best]} sets {best}"
    yield Finding(
        "note", "device", f"the power mode is {mode}, which is slower than this board can be{advice}"
    )


def _clocks(facts: Facts) -> Iterator[Finding]:
    for name, clock in facts.clocks.items():
        allowed, highest = clock.allowed_mhz, clock.highest_mhz
        if allowed is not None and highest is not None and allowed < _HELD_BACK * highest:
            yield Finding(
                "note",
                "device",
                f"{name} may run at {allowed:.0f} of {highest:.0f} MHz: the power mode or heat holds it back, "
                "see edge-runtime health",
            )


def _disk(facts: Facts, needs: Needs) -> Iterator[Finding]:
    disk = facts.disk
    if disk.read_only:
        yield Finding(
            "error" if needs.state else "warning",
            "device",
            f"the disk of {disk.path} is read-only: events and engines cannot be kept, name another with --state",
        )
        return
    if disk.free_bytes is None:
        return
    total = disk.total_bytes or 0
    if disk.free_bytes < _LITTLE_DISK or (total and disk.free_bytes < _FULL * total):
        yield Finding(
            "warning",
            "device",
            f"the disk of {disk.path} has {disk.free_bytes / _GIGA:.1f} GiB left: engines, evidence and the queue "
            "of events need more",
        )
