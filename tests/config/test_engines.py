"""The settings of TensorRT engines."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from edge_runtime.config import load_config
from edge_runtime.config.engines import EnginesConfig, TensorRtConfig
from edge_runtime.config.node import ModelConfig
from edge_runtime.engines.quota import DEFAULT_QUOTA_BYTES
from edge_runtime.engines.wanted import EngineOptions
from edge_runtime.node.engines import tensorrt_options
from edge_runtime.perception.backends.tensorrt import PluginLibrary


def test_what_holds_where_a_file_is_silent_is_what_the_rooms_take_by_themselves() -> None:
    assert EnginesConfig().quota_bytes == DEFAULT_QUOTA_BYTES
    silent = tensorrt_options(ModelConfig(package="p"))
    assert silent.engine == EngineOptions(batch=8)
    assert (silent.prepare, silent.cuda_graphs, silent.mapped) == ("gpu", False, False)


def test_a_model_says_how_its_engine_is_built() -> None:
    asked = TensorRtConfig(prepare="cpu", tf32=False, workspace_mib=64)
    options = tensorrt_options(ModelConfig(package="p", batch=2, tensorrt=asked), batch=4)
    assert options.engine == EngineOptions(batch=4, tf32=False, workspace_bytes=64 << 20)
    assert options.prepare == "cpu"


@pytest.mark.parametrize(
    "fields",
    [{"build_budget": 0}, {"quota_bytes": 1}, {"memory_reserve_mib": -1}, {"directory": "/elsewhere"}],
)
def test_bounds_of_the_section(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        EnginesConfig.model_validate(fields)


@pytest.mark.parametrize("fields", [{"prepare": "dla"}, {"workspace_mib": 1}, {"fp16": True}])
def test_bounds_of_a_models_part(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TensorRtConfig.model_validate(fields)


@pytest.mark.parametrize(("providers", "keeps"), [('["cpu"]', False), ('["tensorrt", "cpu"]', True)])
def test_a_run_with_engines_has_something_to_keep(tmp_path: Path, providers: str, keeps: bool) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(
        "cameras: {dock: {source: {kind: file, path: a.mp4}, model: m}}\n"
        f"models: {{m: {{package: p, providers: {providers}}}}}\n"
    )
    config = load_config(path).config
    assert config.keeps_state is keeps
    assert not config.is_device


def test_plugin_libraries_are_named_by_path_and_digest() -> None:
    library = {"path": "/opt/libspecial.so", "sha256": "0" * 64}
    asked = TensorRtConfig.model_validate({"plugins": [library]})
    options = tensorrt_options(ModelConfig(package="p", tensorrt=asked))
    assert options.engine.plugins == (PluginLibrary(Path("/opt/libspecial.so"), "0" * 64),)
    for wrong, why in (
        ([{**library, "path": "libspecial.so"}], "begins with /"),
        ([{**library, "sha256": "0" * 63}], "64 lower-case hexadecimal"),
        ([{"path": library["path"]}], "sha256"),
        (
            [library, {**library, "path": "/usr/libspecial.so"}],
            "two plugin libraries are called libspecial.so",
        ),
    ):
        with pytest.raises(ValidationError, match=why):
            TensorRtConfig.model_validate({"plugins": wrong})
