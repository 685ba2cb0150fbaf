"""The policy of every device of a scenario: everything may go to the fleet's server."""

from typing import Any

SITE_POLICY: dict[str, Any] = {
    "version": 1,
    "name": "site",
    "recipients": {
        "fleet": {"place": "organisation", "accepts": ["public", "internal"], "purposes": ["operations"]}
    },
    "permits": [
        {
            "name": "all",
            "when": {},
            "to": ["fleet"],
            "purpose": "operations",
            "evidence": "none",
            "budget": {"events_per_hour": 100_000},
        }
    ],
}
