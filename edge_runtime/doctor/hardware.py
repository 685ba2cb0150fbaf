"""The GPU, and which elements GStreamer has for it."""

import re
import sys
from collections.abc import Sequence

from edge_runtime.doctor.facts import GpuFacts, JetsonFacts, VideoFacts
from edge_runtime.doctor.look import Look, clean
from edge_runtime.health import Reading
from edge_runtime.health.jetson import SOCS
from edge_runtime.health.nvidia import read_driver
from edge_runtime.health.reading import unknown

ELEMENTS = ("rtspsrc", "h264parse", "avdec_h264")
"""Asked for everywhere."""

JETSON_ELEMENTS = ("nvv4l2decoder", "nvvidconv", "nvarguscamerasrc")
"""Asked for on a Jetson: the decoder, what turns its pictures into plain ones, and CSI cameras."""

_QUERY = "name,compute_cap,driver_version,memory.total"
_CAPABILITY = re.compile(r"\d{1,2}\.\d")
_SECONDS = 15.0

_ASK_GI = (
    "import gi, sys; gi.require_version('Gst', '1.0'); from gi.repository import Gst; Gst.init(None); "
    "print(Gst.version_string()); [print(n) for n in sys.argv[1:] if Gst.ElementFactory.find(n)]"
)


def gpu(look: Look, board: JetsonFacts | None) -> GpuFacts | None:
    """The first NVIDIA GPU by its driver's tool, by /proc or by the system on chip; None where there is none."""
    said = look.run(["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"], _SECONDS)
    line = (said.value or "").strip().splitlines()[:1]
    told = [clean(part) for part in line[0].split(",")] if line else []
    name, capability, driver, mebibytes = told if len(told) == 4 else [""] * 4
    soc = SOCS.get(board.soc or "") if board is not None else None
    listed = _listed(look)
    loaded = read_driver(look.files)
    if not (name or soc or listed or loaded.known):
        return look.keep("gpu", unknown(said.reason or "nvidia-smi names none"))
    name = name or (soc[0] if soc else listed)
    if not _CAPABILITY.fullmatch(capability):
        capability = soc[1] if soc else ""
    driver = driver if driver[:1].isdigit() else (loaded.value or "")
    silent = said.reason or "its driver does not say"
    shared = "it shares the processors' memory" if soc else silent
    size = Reading(int(mebibytes) << 20) if re.fullmatch(r"[1-9]\d{0,8}", mebibytes) else unknown(shared)
    return GpuFacts(
        name=look.keep("gpu.name", Reading(name) if name else unknown(silent)),
        compute_capability=look.keep(
            "gpu.compute_capability", Reading(capability) if capability else unknown(silent)
        ),
        driver=look.keep("gpu.driver", Reading(driver) if driver else unknown(silent)),
        memory_bytes=look.keep("gpu.memory_bytes", size),
    )


def _listed(look: Look) -> str:
    """The name in `/proc/driver/nvidia/gpus/*/information`."""
    base = "/proc/driver/nvidia/gpus"
    for entry in look.files.names(base, r"[0-9a-f:.]{1,20}"):
        named = re.search(
            r"^Model:\s*(\S.*)$", look.files.text(f"{base}/{entry}/information").value or "", re.MULTILINE
        )
        if named:
            return clean(named[1])
    return ""


def video(look: Look, elements: Sequence[str]) -> VideoFacts:
    """GStreamer's version, and which of `elements` it has."""
    said = look.run(["gst-inspect-1.0", "--version"], _SECONDS)
    if said.value is not None:
        has = {  # it answers by its exit code alone
            name: look.run(["gst-inspect-1.0", "--exists", name], _SECONDS).known
            for name in sorted(set(elements))
        }
        return VideoFacts(gstreamer=look.keep("video.gstreamer", _gst_version(said)), elements=has)
    asked = look.run([sys.executable, "-c", _ASK_GI, *sorted(set(elements))], _SECONDS)
    if asked.value is None:
        absent = unknown(f"{said.reason}, and gi does not answer")
        return VideoFacts(gstreamer=look.keep("video.gstreamer", absent), elements={})
    lines = asked.value.splitlines()
    return VideoFacts(
        gstreamer=look.keep("video.gstreamer", _gst_version(asked)),
        elements={name: name in lines[1:] for name in sorted(set(elements))},
    )


def _gst_version(said: Reading[str]) -> Reading[str]:
    number = re.search(r"\b(\d{1,2}(?:\.\d{1,3}){1,3})\s*$", (said.value or "").strip(), re.MULTILINE)
    return Reading(number[1]) if number else unknown("GStreamer does not say its version")
