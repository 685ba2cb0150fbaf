"""What an approval of going on is bound to, and windows of plans in the words that devices use for theirs."""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"

_rollouts = sa.table("rollouts", sa.column("number", sa.BigInteger), sa.column("plan", sa.Text))


def upgrade() -> None:
    """Add what is approved to approvals, and the key that signed to assignments; rename in stored plans."""
    op.add_column("rollout_approvals", sa.Column("digest", sa.String(length=64), nullable=True))
    op.add_column("assignments", sa.Column("director", sa.String(length=64), nullable=True))
    connection = op.get_bind()
    for number, text in connection.execute(sa.select(_rollouts.c.number, _rollouts.c.plan)).all():
        plan = json.loads(text)
        if not plan.get("windows"):
            continue
        plan["windows"] = [_renamed(window) for window in plan["windows"]]
        changed = json.dumps(plan, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        connection.execute(sa.update(_rollouts).where(_rollouts.c.number == number).values(plan=changed))


def _renamed(window: dict[str, Any]) -> dict[str, Any]:
    end = window.get("ends")
    return {
        "days": window.get("days", []),
        "start": window.get("begins"),
        "end": "00:00" if end == "24:00" else end,
        "time_zone": window.get("zone", "UTC"),
    }
