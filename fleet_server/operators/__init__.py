"""What operators may ask and do: their tokens, and the questions about events, devices and the balance.

Only roles are exported here: the command line knows them too, and needs no database.
"""

from fleet_server.operators.roles import Operator, Role

__all__ = ["Operator", "Role"]
