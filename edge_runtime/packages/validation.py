"""One sentence from a pydantic error: which field, and what is wrong with it."""

from pydantic import ValidationError


def explain(document: str, error: ValidationError) -> str:
    """`manifest.json: weights.sha256: Field required (and 2 more)`."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    first = problems[0]
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    message = first["msg"].removeprefix("Value error, ")
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{document}: {where}: {message}{more}" if where else f"{document}: {message}{more}"
