"""Whether a release fits a device: one rule, for the server that chooses devices and the device that decides."""

from edge_runtime.protocol.release import Fit
from edge_runtime.protocol.update import DeviceFacts, UpdateCode


def misfit(fit: Fit, facts: DeviceFacts) -> UpdateCode | None:
    """The first thing about a device that a release was not made for; None where it fits."""
    checks = (
        (not fit.hardware or bool(set(fit.hardware) & set(facts.hardware)), UpdateCode.HARDWARE),
        (not fit.architectures or facts.architecture in fit.architectures, UpdateCode.ARCHITECTURE),
        (
            not fit.compute_capabilities or facts.compute_capability in fit.compute_capabilities,
            UpdateCode.COMPUTE_CAPABILITY,
        ),
        (fit.l4t.admits(facts.l4t), UpdateCode.L4T),
        (fit.tensorrt.admits(facts.tensorrt), UpdateCode.TENSORRT),
        (fit.runtime.admits(facts.runtime), UpdateCode.RUNTIME),
        (facts.memory_mb >= fit.memory_mb, UpdateCode.NO_MEMORY),
    )
    return next((code for fits, code in checks if not fits), None)
