"""The declarative base and the column types that both databases understand."""

from sqlalchemy import BigInteger, Integer, MetaData
from sqlalchemy.orm import DeclarativeBase

# SQLite gives only an INTEGER PRIMARY KEY its own numbers.
BigId = BigInteger().with_variant(Integer, "sqlite")

NAMES = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """All tables. Times are milliseconds since 1970 by the server's wall clock unless a name says otherwise."""

    metadata = MetaData(naming_convention=NAMES)
