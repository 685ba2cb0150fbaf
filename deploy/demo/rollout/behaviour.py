"""How a version behaves on the camera's frames, measured once: the simulated devices act by it."""

from collections.abc import Sequence

from deploy.demo.rollout.models import sees
from edge_runtime.node.hot_swap.agreement import Objects, agreed
from edge_runtime.packages import ModelPackage
from edge_runtime.perception.detections import Detections
from edge_runtime.sources.frame import Image
from sim.virtual.perception import Behaviour


def behaviour(first: ModelPackage, version: ModelPackage, pictures: Sequence[Image]) -> Behaviour:
    """What a simulated device would see of a version beside the first one.

    Args:
        first: what the devices were set up with.
        version: to be released.
        pictures: of the camera.
    """
    mine = [_objects(first, found) for found in sees(first, pictures)]
    seen = sees(version, pictures)
    theirs = [_objects(version, found) for found in seen]
    pairs = sum(agreed(one, other) for one, other in zip(mine, theirs, strict=True))
    most = max(sum(map(len, mine)), sum(map(len, theirs)))
    return Behaviour(
        agreement=pairs / most if most else 1.0,
        nonfinite=sum(found.nonfinite > 0 for found in seen) / len(seen),
    )


def _objects(package: ModelPackage, found: Detections) -> Objects:
    manifest = package.manifest
    return Objects.of(found, manifest.labels, manifest.thresholds.score)
