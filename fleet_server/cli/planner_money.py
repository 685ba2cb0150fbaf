"""`fleet plan breakeven` and `fleet plan utilisation`."""

from fractions import Fraction
from typing import Annotated

import typer

from fleet_server.cli.output import say, write, write_json
from fleet_server.cli.target import Json
from fleet_server.planner.facts import facts
from fleet_server.planner.money import PER_DAY_S, break_even
from fleet_server.planner.money import utilisation as used_from
from fleet_server.planner.quantity import (
    MONEY,
    PER_REQUEST,
    PER_TIME,
    PER_TOKEN,
    REQUEST_RATE,
    count,
    decimal,
    quantity,
)


def breakeven(
    fixed: Annotated[
        str, typer.Option("--fixed", metavar="MONEY", help="Fixed cost, such as 1000usd.", show_default=False)
    ],
    hosted: Annotated[
        str,
        typer.Option(
            "--hosted", metavar="PRICE", help="Hosted, such as 0.02usd/request.", show_default=False
        ),
    ],
    own: Annotated[
        str,
        typer.Option("--own", metavar="PRICE", help="Your own variable cost, likewise.", show_default=False),
    ],
    requests: Annotated[
        str | None,
        typer.Option("--requests", metavar="RATE", help="Such as 1Mrequest/day: what a day costs."),
    ] = None,
    local: Annotated[
        str | None,
        typer.Option("--local", metavar="SHARE", help="Of requests that stay local: what it saves."),
    ] = None,
    misses: Annotated[
        list[str] | None,
        typer.Option(
            "--misses", metavar="quality|latency|reliability", help="What local work does not meet."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Say from how many requests on your own hardware costs less: accounting, not advice.

    Prices carry their unit: per request, krequest or Mrequest. Where local work misses what is asked of it,
    there is nothing to compare.
    """
    missed = set(misses or ())
    unknown = missed - {"quality", "latency", "reliability"}
    if unknown:
        raise typer.BadParameter(f"--misses {min(unknown)}: one of quality, latency, reliability")
    price, own_price = quantity(hosted, PER_REQUEST), quantity(own, PER_REQUEST)
    found = break_even(
        quantity(fixed, MONEY),
        price,
        own_price,
        quality="quality" not in missed,
        latency="latency" not in missed,
        reliability="reliability" not in missed,
    )
    rate = None if requests is None else quantity(requests, REQUEST_RATE) * PER_DAY_S
    saved = None if local is None else _saved(count(local, "shares"), price, own_price)
    if json:
        write_json(
            {
                "requests": found.requests,
                "why": found.why,
                "ratio": None if found.ratio is None else float(found.ratio),
                "usd_per_day": None
                if rate is None
                else {"hosted": float(rate * price), "own": float(rate * own_price)},
                "saved_share": None if saved is None else float(saved),
            }
        )
        return
    write(found.why or f"from {found.requests:,} requests on")
    if found.ratio is not None:
        write(f"a hosted request costs {decimal(found.ratio, 1)} times your own variable cost")
    if rate is not None:
        write(
            f"a day costs {decimal(rate * price, 2)} usd hosted, {decimal(rate * own_price, 2)} usd of your own"
        )
        write("your own fixed cost comes on top: owned is not free")
    if saved is not None:
        claim = facts().claims["hybrid saving"]
        write(
            f"{decimal(saved * 100, 1)} % less variable cost by your numbers; "
            f"claimed: {claim.text} ({claim.source})"
        )


def _saved(local: Fraction, hosted: Fraction, own: Fraction) -> Fraction:
    """Share of the hosted cost that is saved where so many requests stay."""
    if not 0 <= local <= 1:
        raise typer.BadParameter("--local is a share from 0 to 1")
    return local * (1 - own / hosted) if hosted else Fraction(0)


def utilisation(
    edge: Annotated[
        str,
        typer.Option("--edge", metavar="PRICE", help="Your own, such as 0.35usd/Mtoken.", show_default=False),
    ],
    full: Annotated[
        str,
        typer.Option(
            "--full-load", metavar="PRICE", help="Of a rented machine that is full.", show_default=False
        ),
    ],
    rent: Annotated[
        str,
        typer.Option("--rent", metavar="COST", help="Of that machine, such as 2usd/h.", show_default=False),
    ],
    json: Json = False,
) -> None:
    """Say from which use on a rented machine costs less for a token than your own."""
    found = used_from(quantity(edge, PER_TOKEN), quantity(full, PER_TOKEN), quantity(rent, PER_TIME))
    share = None if found.break_even is None else float(found.break_even)
    if json:
        write_json({"break_even": share, "implied_tokens_per_s": float(found.implied)})
        return
    write(
        "the rented machine never costs less"
        if found.break_even is None
        else f"below {decimal(found.break_even * 100, 1)} % of its time your own costs less"
    )
    say(f"  the price at full load implies {decimal(found.implied, 0)} tokens a second")
