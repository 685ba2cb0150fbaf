"""Memory and caches: every number of the requirements, exactly."""

from fractions import Fraction

import pytest

from edge_runtime.errors import ConfigError
from fleet_server.planner.cache import KeptCache, cache_bytes
from fleet_server.planner.memory import Beside, Machine, Weights, cap_of, plan_memory
from fleet_server.planner.quantity import decimal

GB = Fraction(10**9)


def weights(billions: int, bits: int, active: int | None = None, **more: int) -> Weights:
    return Weights(billions * GB, (active or billions) * GB, Fraction(bits), **more)


@pytest.mark.parametrize(("heads", "gb"), [(8, "17.18"), (32, "68.72")])
def test_the_cache_of_128k_tokens(heads: int, gb: str) -> None:
    assert decimal(cache_bytes(KeptCache(32, heads, 128, 16, 131_072)) / GB, 2) == gb


def test_a_window_caps_tokens_and_quantised_numbers_halve_them() -> None:
    whole = cache_bytes(KeptCache(32, 8, 128, 16, 131_072))
    assert cache_bytes(KeptCache(32, 8, 128, 16, 131_072, window=4096)) * 32 == whole
    assert cache_bytes(KeptCache(32, 8, 128, 16, 1024, window=4096)) * 128 == whole
    assert cache_bytes(KeptCache(32, 8, 128, 8, 131_072)) * 2 == whole
    assert cache_bytes(KeptCache(32, 8, 128, 16, 131_072, sequences=3)) == 3 * whole


@pytest.mark.parametrize("at", range(6))
def test_a_cache_has_no_number_that_is_nothing(at: int) -> None:
    numbers = [32, 8, 128, 16, 1024, 1]
    numbers[at] = 0
    with pytest.raises(ConfigError, match="above 0"):
        cache_bytes(KeptCache(*numbers))


def test_300_billion_parameters_at_4_bits_are_150_gb_before_the_rest() -> None:
    raw = plan_memory(weights(300, 4), Fraction(0), Beside())
    assert raw.terms[0].bytes == 150 * GB
    whole = plan_memory(
        weights(300, 4, scale_bits=32, group=128),
        cache_bytes(KeptCache(32, 8, 128, 16, 4096)),
        Beside(workspace=GB, activations=GB, system=2 * GB, recurrent_state=GB),
    )
    assert whole.terms[0].bytes == 150 * GB
    assert whole.needed > 150 * GB
    assert whole.needed == sum(term.bytes for term in whole.terms)
    assert [term.name for term in whole.terms][1] == "quantisation metadata"
    assert whole.terms[1].bytes == 300 * GB / 128 * 4
    assert len(whole.terms) == 7


def test_what_the_accelerator_may_have_is_a_part_of_unified_memory_and_never_added() -> None:
    assert cap_of(Machine(192 * GB, 160 * GB, unified=True)) == 160 * GB
    assert cap_of(Machine(192 * GB, unified=True)) == 192 * GB
    fits = plan_memory(weights(300, 4), Fraction(0), Beside(), Machine(192 * GB, 160 * GB, unified=True))
    assert fits.fits
    assert fits.cap == 160 * GB
    tight = plan_memory(weights(330, 4), Fraction(0), Beside(), Machine(192 * GB, 160 * GB, unified=True))
    assert tight.fits is False
    with pytest.raises(ConfigError, match="more memory is said to be assignable"):
        cap_of(Machine(160 * GB, 192 * GB))


def test_experts_need_memory_also_when_idle_and_computing_goes_by_the_active_ones() -> None:
    found = plan_memory(weights(100, 8, active=10), Fraction(0), Beside())
    assert found.needed == 100 * GB
    assert found.compute_parameters == 10 * GB


def test_what_is_put_off_lies_in_the_host_and_takes_time_on_the_link() -> None:
    found = plan_memory(
        weights(100, 8, active=10),
        Fraction(0),
        Beside(),
        Machine(80 * GB),
        offloaded=Fraction(1, 2),
        link=50 * GB,
    )
    assert (found.needed, found.host, found.fits) == (50 * GB, 50 * GB, True)
    assert found.link_s == Fraction(1, 10)
    unknown = plan_memory(weights(1, 8), Fraction(0), Beside(), offloaded=Fraction(1, 2))
    assert unknown.link_s is None
    assert any("no rate of the link" in said for said in unknown.assumptions)
    with pytest.raises(ConfigError, match="nothing can be put off"):
        plan_memory(weights(1, 8), Fraction(0), Beside(), Machine(GB, unified=True), offloaded=Fraction(1, 2))


def test_no_speed_is_promised_and_what_was_announced_is_said_to_be() -> None:
    found = plan_memory(weights(1, 4), Fraction(0), Beside(), Machine(GB, measured=False))
    assert any("tokens a second need a measurement" in said for said in found.assumptions)
    assert any("announced, not measured" in said for said in found.assumptions)
    measured = plan_memory(weights(1, 4), GB, Beside(system=GB), Machine(GB))
    assert [said for said in measured.assumptions if "announced" in said or "counted" in said] == []


@pytest.mark.parametrize(
    ("given", "offloaded"),
    [
        (Weights(Fraction(0), Fraction(0), Fraction(4)), 0),
        (Weights(GB, 2 * GB, Fraction(4)), 0),
        (Weights(GB, GB, Fraction(0)), 0),
        (Weights(GB, GB, Fraction(4)), 2),
        (Weights(GB, Fraction(0), Fraction(4)), 0),
    ],
)
def test_inputs_that_contradict_each_other_are_refused(given: Weights, offloaded: int) -> None:
    with pytest.raises(ConfigError):
        plan_memory(given, Fraction(0), Beside(), offloaded=Fraction(offloaded))
