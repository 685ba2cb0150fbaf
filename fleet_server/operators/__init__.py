"""What operators may ask and do: their tokens, and the questions about events, devices and the balance."""

from fleet_server.operators.roles import Operator, Role
from fleet_server.operators.tokens import ApiToken, TokenBook, TokenRefused

__all__ = ["ApiToken", "Operator", "Role", "TokenBook", "TokenRefused"]
