"""What a person accepts who has a paused rollout go on: its bad devices, and the stages that are let pass.

An approval names the digest of exactly that. A device that turns bad between the approval and the act, or a stage
that fails, makes another digest, and the second person is asked again.
"""

import hashlib
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from edge_runtime.protocol.release import canonical
from fleet_server.rollouts.loaded import Loaded, stages_of
from fleet_server.rollouts.states import BAD, StageState
from fleet_server.storage.writing import run

_BAD = ", ".join(f"'{state.value}'" for state in BAD)


@dataclass(frozen=True, slots=True)
class Accepted:
    """What going on accepts.

    Attributes:
        stages: open ones that have not passed, from 0, each with its state.
        bad: devices that are excused, each with its state and code.
    """

    rollout: str
    stages: tuple[tuple[int, StageState], ...]
    bad: tuple[tuple[str, str, str | None], ...]

    @property
    def digest(self) -> str:
        """SHA-256 of all of it, hexadecimal. A device that gets well, or says nothing, is not in it."""
        return hashlib.sha256(
            canonical(
                {
                    "rollout": self.rollout,
                    "stages": [[number, state.value] for number, state in self.stages],
                    "bad": [list(one) for one in self.bad],
                }
            )
        ).hexdigest()


def accepted(connection: Connection, rollout: Loaded) -> Accepted:
    """What going on with a paused rollout would accept now."""
    stages = tuple(
        (number, stage.state)
        for number, stage in enumerate(stages_of(connection, rollout.number))
        if stage.state.is_open and stage.state is not StageState.PASSED
    )
    bad = tuple((row.device, row.state, row.code) for row in run(connection, _ACCEPTED, rollout.number))
    return Accepted(rollout.id, stages, bad)


def excuse(connection: Connection, rollout: Loaded) -> int:
    """Take the bad devices until now out of every number; how many that were."""
    return run(connection, _EXCUSE, rollout.number).rowcount


_WHERE = f"rollout = ? AND NOT excused AND state IN ({_BAD})"
_ACCEPTED = f"SELECT device, state, code FROM rollout_members WHERE {_WHERE} ORDER BY device"  # noqa: S608
_EXCUSE = f"UPDATE rollout_members SET excused = TRUE WHERE {_WHERE}"  # noqa: S608
