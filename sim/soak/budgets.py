"""What each process may take, from a file of people: `budgets.toml`, by run and process."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from edge_runtime.errors import ConfigError
from sim.soak.figures import Measure
from sim.toml_file import read_toml

BUDGETS = Path(__file__).parent / "budgets.toml"
Amount = Annotated[float, Field(ge=0)]
Budget = Mapping[Measure, Amount]
"""The most of each measure; what is not named is measured and not limited."""


class Budgets(BaseModel):
    """The whole file.

    Attributes:
        warm_up: share of a process's life that is left out of shares and slopes.
        look_every: seconds between two looks.
        runs: by run, then by process.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    warm_up: Annotated[float, Field(ge=0, lt=0.9)]
    look_every: Annotated[float, Field(gt=0, le=600)]
    runs: Mapping[str, Mapping[str, Budget]]

    def of(self, run: str) -> Mapping[str, Budget]:
        """The budgets of one run.

        Raises:
            ConfigError: there is none of that name.
        """
        if run not in self.runs:
            raise ConfigError(f"no budgets for a run {run}; there are those of {', '.join(self.runs)}")
        return self.runs[run]


def read_budgets(path: Path = BUDGETS) -> Budgets:
    """Read and check the file.

    Raises:
        ConfigError: it cannot be read, or says what no such file says; each line of the text is one problem.
    """
    return read_toml(path, Budgets, ConfigError, reader="a file of budgets").record
