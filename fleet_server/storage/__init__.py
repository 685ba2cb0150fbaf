"""The fleet server's database: one schema, SQLite or PostgreSQL."""

from fleet_server.storage.base import Base
from fleet_server.storage.engine import Store, open_store
from fleet_server.storage.migrate import SchemaTooNew, StoreUnavailable, upgrade

__all__ = ["Base", "SchemaTooNew", "Store", "StoreUnavailable", "open_store", "upgrade"]
