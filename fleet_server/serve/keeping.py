"""What the server does by itself for as long as it runs. Nothing that goes wrong in one round ends it.

Whatever it is, a defect too, the next round tries again: a task that has ended would never sign or step any more,
and a server that was started again would meet the same thing at once.
"""

import asyncio
import logging
from typing import NoReturn

from fleet_server.releases.desk import ReleaseDesk
from fleet_server.rollouts.service import RolloutService

RELEASES_EVERY_S = 300.0
ROLLOUTS_EVERY_S = 1.0

_log = logging.getLogger("fleet_server.serve")


async def keep_fresh(desk: ReleaseDesk, every_s: float = RELEASES_EVERY_S) -> NoReturn:
    """Have the signed metadata that is the server's own never run out, from the first moment on."""
    while True:
        try:
            made = await asyncio.to_thread(desk.freshness.keep)
            if made:
                _log.info("signed anew roles=%s", ",".join(made))
            await asyncio.to_thread(desk.uploads.tidy)
        except Exception as error:  # noqa: BLE001 - the next round tries again, whatever it was
            _log.error("signed metadata cannot be renewed: %s", _text(error))
        await asyncio.sleep(every_s)


async def step_rollouts(rollouts: RolloutService, every_s: float = ROLLOUTS_EVERY_S) -> NoReturn:
    """Have rollouts go on. What stops them is said once, and again when it is something else."""
    said = ""
    while True:
        try:
            report = await asyncio.to_thread(rollouts.step)
            said = ""
            for act in report.acts:
                _log.info("rollout %s", act)
        except Exception as error:  # noqa: BLE001 - the next step goes on, whatever it was
            if _text(error) != said:
                said = _text(error)
                _log.error("rollouts do not go on: %s", said)
        await asyncio.sleep(every_s)


def _text(error: Exception) -> str:
    """With its kind: the text of a defect alone says little."""
    return f"{type(error).__name__}: {error}"
