"""Whatever lies where the doctor reads, it finds something or says why not (jetson_stats #885, #863)."""

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge_runtime.doctor import collect, judge, read_facts, screen_lines
from tests.doctor.trees import NANO_COMMANDS, Commands, look_at, nano_software
from tests.rigs.boards import FixedClock, orin_nano

READ = (
    "etc/os-release",
    "etc/nv_tegra_release",
    "etc/nvpmodel.conf",
    "var/lib/nvpmodel/status",
    "var/lib/dpkg/status",
    "proc/device-tree/model",
    "proc/device-tree/compatible",
    "proc/meminfo",
    "proc/sys/kernel/osrelease",
    "proc/driver/nvidia/version",
    "usr/local/cuda/version.json",
    "usr/lib/python3.10/dist-packages/tensorrt-10.3.0.dist-info/METADATA",
    "usr/lib/python3.10/dist-packages/onnxruntime_gpu-1.0.dist-info",
    "venv/site-packages/pycuda",
)

ODD = (
    b"",
    b"\0" * 4096,
    b"\xff\xfe\x00garbage\x1b[2J",
    b"# R36 (release), REVISION: " + b"9" * 400,
    b"# R\xc2\xb2 (release), REVISION: 4.3",
    b"pmode:99999999999999999999",
    b"< POWER_MODEL ID=99999999 NAME=" + b"A" * 5000 + b" >",
    b"Package: tensorrt\nStatus: install ok installed\nVersion: \x1b[31m\n\n" * 50,
    b"Package: python3-libnvinfer\nStatus: install ok installed\nVersion: " + b"1" * 500 + b"\n",
    b"Metadata-Version: 2.1\nName: pycuda\nVersion: \xf0\x9f\x92\xa5\n",
    b"MemTotal: 99999999999999 kB\nMemAvailable: -1 kB\n",
    b'{"cuda": {"version": "not a number"}}',
    b"PRETTY_NAME=\n",
)


def remove(file: Path) -> None:
    if file.is_dir():
        shutil.rmtree(file)
    file.unlink(missing_ok=True)


def judged(root: Path, commands: Commands | None = None) -> list[str]:
    """The screen of a tree; the facts must survive their own JSON, and the screen its width."""
    path = (root / "venv/site-packages", root / "usr/lib/python3.10/dist-packages")
    facts = collect(look_at(root, commands or Commands(NANO_COMMANDS), path), FixedClock(), root)
    assert read_facts(json.dumps({"facts": facts.model_dump(mode="json")})) == facts
    lines = screen_lines(facts, judge(facts))
    assert max(map(len, lines)) <= 80
    assert all(line.isprintable() for line in lines)
    return lines


@pytest.mark.parametrize("place", READ)
@pytest.mark.parametrize("kind", ["absent", "folder", "pipe", "loop", "unreadable", "huge", *range(len(ODD))])
def test_one_odd_file(tmp_path: Path, place: str, kind: str | int) -> None:
    nano_software(orin_nano(tmp_path))
    file = tmp_path / place
    file.parent.mkdir(parents=True, exist_ok=True)
    remove(file)
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "loop":
        file.symlink_to(file.name)
    elif kind == "unreadable":
        file.symlink_to("/proc/self/mem")  # opens, and answers EIO
    elif kind == "huge":
        with file.open("wb") as stream:
            stream.truncate(1 << 36)
    elif isinstance(kind, int):
        file.write_bytes(ODD[kind])
    judged(tmp_path)


CONTENT = st.binary(max_size=200) | st.sampled_from(ODD)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(READ), CONTENT, max_size=5), st.text(max_size=80))
def test_several_odd_files_and_an_odd_answer(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], answer: str
) -> None:
    root = tmp_path_factory.mktemp("tree")
    nano_software(orin_nano(root))
    for place, content in files.items():
        file = root / place
        file.parent.mkdir(parents=True, exist_ok=True)
        remove(file)
        file.write_bytes(content)
    judged(
        root, Commands({**NANO_COMMANDS, ("nvidia-smi",): answer, ("gst-inspect-1.0", "--version"): answer})
    )


def test_an_empty_tree(tmp_path: Path) -> None:
    lines = judged(tmp_path, Commands({}))
    assert "  error     no model can run here without numpy and opencv" in lines
