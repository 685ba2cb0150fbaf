"""The model on the board: its golden vectors, and its accuracy."""

from hil.device_parts import Models, Pictures
from hil.plugin import Measure


def test_golden_vectors_hold(models: Models, measure: Measure) -> None:
    """The numbers that the package promises come out there too."""
    holds, said = models.golden()
    measure("golden_vectors", float(holds), "yes", at_least=1)
    assert "unfit" not in said


def test_accuracy_on_the_board(pictures: Pictures, measure: Measure) -> None:
    """What the board's own arithmetic leaves of it; the limit belongs into the rig's file."""
    measure("accuracy", pictures.accuracy(), "mAP", at_least=0.1)
