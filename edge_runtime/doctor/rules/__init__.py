"""From facts to findings. Pure: a set of facts from any device is judged anywhere."""

from edge_runtime.doctor.facts import Facts
from edge_runtime.doctor.findings import PARTS, Finding
from edge_runtime.doctor.needs import Needs
from edge_runtime.doctor.rules.device import device, video
from edge_runtime.doctor.rules.models import models, nothing_runs
from edge_runtime.doctor.rules.onnx import onnx
from edge_runtime.doctor.rules.platform import gpu, machine
from edge_runtime.doctor.rules.tensorrt import tensorrt

_RULES = (machine, gpu, tensorrt, onnx, video, device, models, nothing_runs)


def judge(facts: Facts) -> tuple[Finding, ...]:
    """All findings, by part, each part in the order of its rules."""
    needs = Needs.of(facts)
    found = [finding for rule in _RULES for finding in rule(facts, needs)]
    return tuple(sorted(found, key=lambda finding: PARTS.index(finding.part)))
