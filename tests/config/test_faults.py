"""The section `faults`: off without it, refused on a device in the field, out of reach for the fleet."""

from pathlib import Path

import pytest

from edge_runtime.clock import SystemClock
from edge_runtime.config import InvalidConfig, load_config, read_overlay
from edge_runtime.node.fault_orders import fault_injector

SITE = """\
cameras: {dock: {source: {kind: synthetic}, model: m}}
models: {m: {package: p}}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "site.yaml"
    path.write_text(SITE + text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "injects"),
    [
        ("", False),
        ("faults: {}\n", False),
        ("device: {purpose: bench}\n", False),
        ("device: {purpose: bench}\nfaults: {enabled: false}\n", False),
        ("device: {purpose: bench}\nfaults: {enabled: true}\n", True),
    ],
)
def test_it_takes_two_words_of_the_devices_own_file(tmp_path: Path, text: str, injects: bool) -> None:
    loaded = load_config(written(tmp_path, text))
    assert loaded.config.injects_faults is injects
    assert (fault_injector(loaded, tmp_path / "state", SystemClock()) is not None) is injects


@pytest.mark.parametrize("device", ["", "device: {purpose: field}\n", "device: {name: cart-7}\n"])
def test_a_device_in_the_field_refuses_it_with_its_line(tmp_path: Path, device: str) -> None:
    with pytest.raises(InvalidConfig, match="is refused on a device in the field") as found:
        load_config(written(tmp_path, f"{device}faults: {{enabled: true}}\n"))
    line = SITE.count("\n") + device.count("\n") + 1
    assert f"site.yaml:{line}: faults.enabled" in str(found.value)


@pytest.mark.parametrize("text", ["faults: {enabled: true}", "device: {purpose: bench}"])
def test_a_release_of_the_fleet_can_set_neither_word(tmp_path: Path, text: str) -> None:
    release = tmp_path / "release"
    release.mkdir()
    (release / "overlay.yaml").write_text(text, encoding="utf-8")
    site = written(tmp_path, "delivery: {}\n")
    with pytest.raises(InvalidConfig, match="is nothing that a release may set"):
        load_config(site, {}, read_overlay(release, {}))
