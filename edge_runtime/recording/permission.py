"""Whether frames of a camera may be recorded: as little as may leave the device.

A recording lies on the device, and is made to be carried off it. So a picture goes into it only where its class is
known, and where a policy decides about what leaves, only where a permit names recordings. A permit for the crops of
events is none: no event takes a whole frame with it.
"""

from edge_runtime.config.node import CameraConfig
from edge_runtime.policy import DecisionRequest, Policy, Usage, decide
from edge_runtime.protocol import DataClass, DecisionKind, EvidenceMode, Severity

RECORDING_RULE = "@recording"
"""Rule name under which a policy is asked; no configured name begins like this."""

WITHOUT_POLICY = (DataClass.PUBLIC, DataClass.INTERNAL)
"""Classes of which pictures may be recorded where nothing leaves the device, and so no policy says anything."""


def why_no_pictures(name: str, camera: CameraConfig, *, delivers: bool, policy: Policy | None) -> str:
    """Why no frame of a camera may be recorded, in one sentence; empty where they may be.

    Args:
        name: of the camera.
        camera: its section.
        delivers: whether anything leaves the device.
        policy: that decides about it; None where there is none in force.
    """
    data_class = camera.data_class
    if data_class is None or data_class is DataClass.UNKNOWN:
        return f"camera {name} has no data_class: what its pictures show counts as restricted"
    if delivers:
        return _why_held(name, data_class, policy)
    if data_class in WITHOUT_POLICY:
        return ""
    return f"camera {name} is {data_class.value}: without a policy only public and internal ones are pictured"


def _why_held(name: str, data_class: DataClass, policy: Policy | None) -> str:
    if policy is None:
        return f"camera {name}: there is no policy in force, and without one no picture leaves the device"
    answer = decide(
        DecisionRequest(
            data_class=data_class,
            severity=Severity.INFO,
            camera=name,
            rule=RECORDING_RULE,
            kind="recording",
            evidence_bytes=0,
            usage={permit.name: Usage() for permit in policy.permits},
        ),
        policy,
    )
    if answer.kind is not DecisionKind.SEND or answer.evidence is EvidenceMode.NONE:
        return (
            f"camera {name}: no permit of policy {policy.name} lets its pictures leave "
            f"(rule {RECORDING_RULE}, kind recording, class {data_class.value})"
        )
    permit = next(permit for permit in policy.permits if permit.name == answer.permit)
    if RECORDING_RULE not in permit.when.rules:
        return (
            f"camera {name}: permit {answer.permit} lets crops leave and no whole frames; one for recordings names "
            f"{RECORDING_RULE} among its rules"
        )
    if answer.evidence is EvidenceMode.REDACTED:
        return (
            f"camera {name}: permit {answer.permit} lets its pictures leave redacted only, and in those a model "
            "sees something else"
        )
    return ""
