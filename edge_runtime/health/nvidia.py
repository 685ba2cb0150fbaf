"""What the kernel's NVIDIA driver says of itself, on a Jetson and elsewhere."""

import re

from edge_runtime.health.reading import Reading, unknown
from edge_runtime.health.sysfiles import SysFiles

_VERSION = re.compile(r"NVRM version:.*?\s(\d{3,4}\.\d{1,3}(?:\.\d{1,3})?)(?:\s|$)", re.MULTILINE)


def read_driver(files: SysFiles) -> Reading[str]:
    """Its version, like `570.124.06`.

    `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build …`
    """
    said = files.text("/proc/driver/nvidia/version")
    if said.value is None:
        return unknown(said.reason)
    found = _VERSION.search(said.value)
    return Reading(found[1]) if found else unknown("/proc/driver/nvidia/version names no version")
