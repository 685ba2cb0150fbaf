"""What a machine has for running models, what it lacks, and what to do about it.

Collectors read facts and never raise for what they do not find; rules are pure and turn facts into sentences, so
that the facts of a device can be judged anywhere. Models of a configuration are really opened, each in a process
of its own.
"""

from edge_runtime.doctor.collect import collect
from edge_runtime.doctor.facts import Facts, read_facts
from edge_runtime.doctor.findings import Finding, exit_code
from edge_runtime.doctor.look import Look
from edge_runtime.doctor.models import children_of
from edge_runtime.doctor.rules import judge
from edge_runtime.doctor.screen import screen_lines, summary

__all__ = [
    "Facts",
    "Finding",
    "Look",
    "children_of",
    "collect",
    "exit_code",
    "judge",
    "read_facts",
    "screen_lines",
    "summary",
]
