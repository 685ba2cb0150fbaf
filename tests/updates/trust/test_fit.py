"""Fit of releases to devices, with the sentence that a person reads."""

import pytest

from edge_runtime.protocol.release import Fit, ReleaseTerms, VersionBounds
from edge_runtime.protocol.update import DeviceFacts, UpdateCode
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.trust.fit import refuse_misfit
from tests.rigs.signed_repository import make_release
from tests.rigs.trusting_device import refusal

ORIN = DeviceFacts(
    hardware=("jetson-orin-nx", "generic"),
    architecture="aarch64",
    compute_capability="8.7",
    l4t="36.4.0",
    tensorrt="10.3.0.30",
    runtime="0.9.1",
    memory_mb=16_000,
)
LAPTOP = DeviceFacts(architecture="x86_64", runtime="0.9.1", memory_mb=8_000)


@pytest.mark.parametrize(
    ("fit", "facts", "code"),
    [
        (Fit(), LAPTOP, None),
        (Fit(), ORIN, None),
        (Fit(hardware=("generic",)), ORIN, None),
        (Fit(hardware=("jetson-orin-nx",)), LAPTOP, UpdateCode.HARDWARE),
        (Fit(architectures=("aarch64",)), LAPTOP, UpdateCode.ARCHITECTURE),
        (Fit(compute_capabilities=("8.7", "8.9")), ORIN, None),
        (Fit(compute_capabilities=("8.9",)), ORIN, UpdateCode.COMPUTE_CAPABILITY),
        (Fit(compute_capabilities=("8.7",)), LAPTOP, UpdateCode.COMPUTE_CAPABILITY),
        (Fit(l4t=VersionBounds(at_least="36.4")), ORIN, None),
        (Fit(l4t=VersionBounds(below="36.4")), ORIN, UpdateCode.L4T),
        (Fit(l4t=VersionBounds(at_least="36")), LAPTOP, UpdateCode.L4T),
        (Fit(tensorrt=VersionBounds(at_least="10.3", below="10.4")), ORIN, None),
        (Fit(tensorrt=VersionBounds(at_least="10.13")), ORIN, UpdateCode.TENSORRT),
        (Fit(runtime=VersionBounds(at_least="0.10")), ORIN, UpdateCode.RUNTIME),
        (Fit(memory_mb=8_000), LAPTOP, None),
        (Fit(memory_mb=8_001), LAPTOP, UpdateCode.NO_MEMORY),
    ],
)
def test_the_first_thing_that_is_missing(fit: Fit, facts: DeviceFacts, code: UpdateCode | None) -> None:
    assert refusal(lambda: refuse_misfit(fit, facts)) is code


@pytest.mark.parametrize(
    ("fit", "sentence"),
    [
        (Fit(hardware=("a", "b")), "hardware a, b; this device has jetson-orin-nx, generic"),
        (Fit(architectures=("x86_64",)), "architecture x86_64; this device has aarch64"),
        (Fit(compute_capabilities=("8.9",)), "compute capability 8.9; this device has 8.7"),
        (Fit(l4t=VersionBounds(at_least="37")), "L4T from 37 on; this device has 36.4.0"),
        (
            Fit(tensorrt=VersionBounds(at_least="10.4", below="11")),
            "TensorRT from 10.4 on, below 11; this device has 10.3.0.30",
        ),
        (Fit(runtime=VersionBounds(below="0.9")), "this runtime below 0.9; this device has 0.9.1"),
        (Fit(memory_mb=32_000), "32000 MB of memory; this device has 16000 MB"),
    ],
)
def test_the_sentence_says_what_is_wanted_and_what_is_there(fit: Fit, sentence: str) -> None:
    with pytest.raises(UpdateRefused) as refused:
        refuse_misfit(fit, ORIN)
    assert str(refused.value) == f"the release is made for {sentence}"


def test_the_sentence_stays_short() -> None:
    fit = Fit(hardware=tuple(f"board-{number:03}-{'x' * 100}" for number in range(64)))
    with pytest.raises(UpdateRefused, match="and 60 more") as refused:
        refuse_misfit(fit, ORIN)
    assert len(str(refused.value)) <= 300


def test_terms_travel_through_metadata_that_knows_no_fractions() -> None:
    from securesystemslib.formats import encode_canonical

    terms = make_release(3, labels=("a", "ü"), notes="é", probation={"max_latency_ms": 12.25}).terms
    custom = terms.custom()
    assert custom["probation"]["max_latency_ms"] == "12.25"
    assert encode_canonical(custom)
    assert ReleaseTerms.from_custom(custom) == terms
    with pytest.raises(ValueError, match="counter"):
        ReleaseTerms.from_custom({**custom, "counter": 0})
