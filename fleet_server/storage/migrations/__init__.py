"""Alembic's scripts: one file a revision in `versions`, run by `fleet_server.storage.migrate`."""
