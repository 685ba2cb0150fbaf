"""apt's packages by dpkg's own file."""

import re
from pathlib import Path

from edge_runtime.clock import SystemClock
from edge_runtime.health.dpkg import installed_packages
from edge_runtime.health.sysfiles import MAX_BYTES, SysFiles

STATUS = """Package: libnvinfer10
Status: install ok installed
Architecture: arm64
Version: 10.3.0.30-1+cuda12.5
Description: TensorRT runtime libraries
 Version: 9 of it is only spoken of

Package: libnvinfer8
Status: deinstall ok config-files
Version: 8.6.2.3-1+cuda12.2

Package: libnvinfer-lean10
Status: install ok installed
Version: 10.2.0.19-1+cuda12.5
"""


def test_what_is_installed_and_asked_for_whatever_is_before_it(tmp_path: Path) -> None:
    files = SysFiles(tmp_path, SystemClock())
    wanted = re.compile(r"libnvinfer\d+")
    assert installed_packages(files, wanted) == {}
    folder = tmp_path / "var" / "lib" / "dpkg"
    folder.mkdir(parents=True)
    others = "Package: other\nStatus: install ok installed\nVersion: 1\n\n" * (MAX_BYTES // 20)
    (folder / "status").write_text(others + STATUS, encoding="utf-8")
    assert installed_packages(files, wanted) == {"libnvinfer10": "10.3.0.30-1+cuda12.5"}
