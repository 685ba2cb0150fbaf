"""Which of apt's packages are installed, by the file in which dpkg keeps it: no command is needed."""

import re

from edge_runtime.health.sysfiles import SysFiles

STATUS = "/var/lib/dpkg/status"

_MOST_BYTES = 64 << 20
"""Of that file; a desktop's has 5 MB."""

_VERSION = re.compile(r"[\w.+:~-]{1,60}")


def installed_packages(files: SysFiles, wanted: re.Pattern[str]) -> dict[str, str]:
    """Versions by name, like `10.3.0.30-1+cuda12.5`; none on a machine without dpkg.

    Args:
        files: of the machine.
        wanted: matches the whole name of each package that is asked for.
    """
    found: dict[str, str] = {}
    for stanza in (files.text(STATUS, _MOST_BYTES).value or "").split("\n\n"):
        fields = {}
        for line in stanza.splitlines():
            name, colon, value = line.partition(": ")
            if colon and name in ("Package", "Status", "Version"):
                fields[name] = value.strip()
        name, version = fields.get("Package", ""), fields.get("Version", "")
        if (
            fields.get("Status") == "install ok installed"
            and wanted.fullmatch(name)
            and _VERSION.fullmatch(version)
        ):
            found[name] = version
    return found
