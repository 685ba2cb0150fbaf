"""The policy core: may this event leave the device, to whom, with how much of its evidence, and why. Pure.

The device's gate and the server decide with this same code. It knows the protocol's vocabulary and nothing else:
no file, no clock, no network. Time, budgets and repeats come in as plain values.
"""

from edge_runtime.policy.budget import BudgetBook
from edge_runtime.policy.checks import policy_problems
from edge_runtime.policy.decide import decide
from edge_runtime.policy.model import Policy
from edge_runtime.policy.request import Considered, Decision, DecisionRequest, Known, Usage
from edge_runtime.policy.review import ReviewRefused, release_decision, remote_may_see, require_person
from edge_runtime.policy.words import sentence

__all__ = [
    "BudgetBook",
    "Considered",
    "Decision",
    "DecisionRequest",
    "Known",
    "Policy",
    "ReviewRefused",
    "Usage",
    "decide",
    "policy_problems",
    "release_decision",
    "remote_may_see",
    "require_person",
    "sentence",
]
