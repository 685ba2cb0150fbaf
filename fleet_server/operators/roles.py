"""Roles, each of which includes the ones before it, and the person or program that has one."""

from dataclasses import dataclass
from enum import Enum


class Role(str, Enum):
    """What a token may do.

    Attributes:
        VIEWER: look at everything but secrets.
        OPERATOR: also invite and label devices, and take a device out at once by revoking it.
        APPROVER: also let something through: accept a new key, release or drop what a device holds.
        ADMIN: also make and revoke tokens, remove devices, and publish the keys that sign releases.
    """

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        """0 for viewer to 3 for admin."""
        return list(Role).index(self)

    def includes(self, other: "Role") -> bool:
        """Whether this role may do what `other` may."""
        return self.rank >= other.rank


@dataclass(frozen=True, slots=True)
class Operator:
    """Who asks.

    Attributes:
        id: of the token, 16 hexadecimal digits.
        name: as the audit shows it.
    """

    id: str
    name: str
    role: Role
