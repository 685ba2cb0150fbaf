"""${message}."""

import sqlalchemy as sa
from alembic import op

revision: str = ${repr(up_revision)}
down_revision: str | None = ${repr(down_revision)}


def upgrade() -> None:
    """Make the schema of this revision out of the one before."""
    ${upgrades if upgrades else "pass"}
