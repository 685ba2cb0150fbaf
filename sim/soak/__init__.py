"""What a run of minutes or hours takes of a machine: watched, turned into figures, held against budgets in a file.

`tests/soak` and `python -m sim.fleet` run it over real processes; `budgets.toml` says what each of them may take.
"""

from sim.soak.budgets import BUDGETS, Budgets, read_budgets
from sim.soak.figures import Figure, figures_of
from sim.soak.judge import Line, judge
from sim.soak.report import write_report
from sim.soak.run import SoakRun, over
from sim.soak.slope import Slope, theil_sen
from sim.soak.watch import Watch

__all__ = [
    "BUDGETS",
    "Budgets",
    "Figure",
    "Line",
    "Slope",
    "SoakRun",
    "Watch",
    "figures_of",
    "judge",
    "over",
    "read_budgets",
    "theil_sen",
    "write_report",
]
