"""What an engine is tied to, as this machine tells it."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edge_runtime.engines.machine import import_tensorrt, read_machine, tensorrt_version
from edge_runtime.errors import MissingDependency

DPKG = """Package: libnvinfer-lean10
Status: install ok installed
Version: 10.2.0.19-1+cuda12.5

Package: libnvinfer10
Status: install ok installed
Architecture: arm64
Source: tensorrt
Version: {version}-1+cuda12.5
Description: TensorRT runtime libraries
"""

ORIN: Any = SimpleNamespace(device_name="Orin", compute_capability=(8, 7))


@pytest.mark.parametrize(
    ("said", "installed", "version"),
    [
        ("10.3.0", "10.3.0.26", "10.3.0.26"),
        ("10.13.3.9", "10.3.0.26", "10.13.3.9"),
        ("10.3.0", "10.4.0.11", "10.3.0"),
        ("10.3.0", None, "10.3.0"),
    ],
)
def test_debian_knows_the_build_where_the_module_does_not(
    tmp_path: Path, said: str, installed: str | None, version: str
) -> None:
    if installed is not None:
        (tmp_path / "var" / "lib" / "dpkg").mkdir(parents=True)
        (tmp_path / "var" / "lib" / "dpkg" / "status").write_text(
            DPKG.format(version=installed), encoding="utf-8"
        )
    assert tensorrt_version(SimpleNamespace(__version__=said), tmp_path) == version


def test_a_jetson_has_a_release_and_no_driver_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "nv_tegra_release").write_text("# R36 (release), REVISION: 4.3, GCID: 38968081\n")
    found = read_machine(ORIN, SimpleNamespace(__version__="10.3.0"), root=tmp_path)
    assert (found.gpu, found.sm, found.tensorrt, found.l4t, found.driver) == (
        "Orin",
        "8.7",
        "10.3.0",
        "36.4.3",
        None,
    )


def test_a_server_has_a_driver_and_no_release(tmp_path: Path) -> None:
    folder = tmp_path / "proc" / "driver" / "nvidia"
    folder.mkdir(parents=True)
    (folder / "version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build\nGCC version: 12\n"
    )
    card: Any = SimpleNamespace(device_name="NVIDIA H100", compute_capability=(9, 0))
    found = read_machine(card, SimpleNamespace(__version__="11.4.0.106"), root=tmp_path)
    assert (found.l4t, found.driver) == (None, "570.124.06")


def test_what_is_missing_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    with pytest.raises(MissingDependency) as missing:
        import_tensorrt(tmp_path)
    assert "`pip install tensorrt cuda-bindings`" in str(missing.value)
    assert "apt" not in str(missing.value), "what helps a Jetson is not there on other machines"
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "nv_tegra_release").write_text("# R36 (release), REVISION: 4.3, GCID: 38968081\n")
    with pytest.raises(MissingDependency) as missing:
        import_tensorrt(tmp_path)
    assert "`sudo apt install python3-libnvinfer`" in str(missing.value)
    assert "pip" not in str(missing.value), "its wheels are for other machines"
    monkeypatch.delitem(sys.modules, "tensorrt")
    (tmp_path / "tensorrt.py").write_text(
        "raise ImportError('libnvinfer.so.10: cannot open shared object file')"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MissingDependency, match=r"installed but cannot be imported: libnvinfer\.so\.10"):
        import_tensorrt()
