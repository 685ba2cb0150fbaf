"""The sentence that goes with a misfit: what a release asks for, and what this device has."""

from edge_runtime.protocol.fitting import misfit
from edge_runtime.protocol.release import Fit, VersionBounds
from edge_runtime.protocol.update import DeviceFacts, UpdateCode
from edge_runtime.updates.problems import UpdateRefused

_SHOWN = 4


def refuse_misfit(fit: Fit, facts: DeviceFacts) -> None:
    """Refuse a release that is not made for a device, by the rule that the server plans with.

    Raises:
        UpdateRefused: with the code of the first thing that is missing.
    """
    code = misfit(fit, facts)
    if code is not None:
        wanted, found = _asked(code, fit, facts)
        raise UpdateRefused(code, f"the release is made for {wanted}; this device has {found}")


def _asked(code: UpdateCode, fit: Fit, facts: DeviceFacts) -> tuple[str, str]:
    """What is asked for and what is there, of the thing that a code is about."""
    capability = facts.compute_capability or "none"
    found = {
        UpdateCode.HARDWARE: (f"hardware {_listed(fit.hardware)}", _listed(facts.hardware)),
        UpdateCode.ARCHITECTURE: (f"architecture {_listed(fit.architectures)}", facts.architecture),
        UpdateCode.COMPUTE_CAPABILITY: (
            f"compute capability {_listed(fit.compute_capabilities)}",
            capability,
        ),
        UpdateCode.L4T: (f"L4T {_range(fit.l4t)}", facts.l4t or "none"),
        UpdateCode.TENSORRT: (f"TensorRT {_range(fit.tensorrt)}", facts.tensorrt or "none"),
        UpdateCode.RUNTIME: (f"this runtime {_range(fit.runtime)}", facts.runtime),
        UpdateCode.NO_MEMORY: (f"{fit.memory_mb} MB of memory", f"{facts.memory_mb} MB"),
    }
    return found[code]


def _listed(names: tuple[str, ...]) -> str:
    """The first of some names, for a report's text is short."""
    shown = ", ".join(name[:40] for name in names[:_SHOWN]) or "none"
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown


def _range(bounds: VersionBounds) -> str:
    low = "" if bounds.at_least is None else f"from {bounds.at_least} on"
    high = "" if bounds.below is None else f"below {bounds.below}"
    return ", ".join(part for part in (low, high) if part)
