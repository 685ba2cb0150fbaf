"""The fleet server's database: one schema, SQLite or PostgreSQL."""

from fleet_server.storage.base import Base
from fleet_server.storage.engine import Store, open_store

__all__ = ["Base", "Store", "open_store"]
