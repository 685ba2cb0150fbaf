"""Whether a model package is fit for this machine: golden vectors, reference scenes, sizes that really run."""

from edge_runtime.qualification.check import check_package
from edge_runtime.qualification.problem import CheckReport, Problem, unopened

__all__ = ["CheckReport", "Problem", "check_package", "unopened"]
