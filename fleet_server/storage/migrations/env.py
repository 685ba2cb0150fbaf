"""Alembic runs this file. The connection comes from `fleet_server.storage.migrate`, never from a configuration."""

from alembic import context

from fleet_server.storage.migrate import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
