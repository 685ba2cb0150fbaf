"""`fleet plan`: arithmetic with stated inputs; every number that needs a unit is written with it."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated

import typer

from fleet_server.cli.output import say, write, write_json, write_table
from fleet_server.cli.planner_money import breakeven, utilisation
from fleet_server.cli.planner_place import latency, placement
from fleet_server.cli.target import Json
from fleet_server.planner.cache import KeptCache, cache_bytes
from fleet_server.planner.facts import facts
from fleet_server.planner.latency import reading_s
from fleet_server.planner.memory import Beside, Machine, MemoryPlan, Weights, plan_memory
from fleet_server.planner.quantisation import FULL_BITS, schemes_for, shrinking
from fleet_server.planner.quantity import (
    BYTE_RATE,
    BYTES,
    TOKEN_RATE,
    count,
    decimal,
    gigabytes,
    quantity,
    whole,
)
from fleet_server.planner.speculative import speculate
from fleet_server.planner.throttle import Cooling, admission

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Plan memory, cost, latency and placement, exactly, from numbers with units.",
)

_USUAL = "128/32"
"""Weights of a group and the bits that it shares, where weights are quantised and nobody says how."""

_Bytes = typer.Option("--total", metavar="BYTES", help="Memory of the machine, such as 192GB.")


def _cache(given: str | None) -> Fraction:
    """`LAYERS/HEADS/NUMBERS/BITS/TOKENS[/SEQUENCES[/WINDOW]]`."""
    if given is None:
        return Fraction(0)
    parts = given.split("/")
    if not 5 <= len(parts) <= 7:
        raise typer.BadParameter(
            "a cache is written LAYERS/HEADS/NUMBERS/BITS/TOKENS[/SEQUENCES[/WINDOW]], such as 32/8/128/16/131072"
        )
    names = ("layers", "heads", "numbers of a head", "bits", "tokens", "sequences", "tokens of a window")
    numbers = [whole(part, name) for part, name in zip(parts, names, strict=False)]
    return cache_bytes(KeptCache(*numbers))


@app.command()
def memory(
    parameters: Annotated[
        str,
        typer.Option(
            "--parameters", metavar="COUNT", help="All parameters, such as 300B.", show_default=False
        ),
    ],
    bits: Annotated[str, typer.Option("--bits", metavar="BITS", help="Of a weight.", show_default=False)],
    active: Annotated[
        str | None, typer.Option("--active", metavar="COUNT", help="Parameters of one token, with experts.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            metavar="WEIGHTS/BITS",
            help="Quantisation: weights of a group, bits it shares; 128/32 below 16 bits.",
        ),
    ] = None,
    cache: Annotated[
        str | None,
        typer.Option(
            "--cache",
            metavar="CACHE",
            help="Key-value cache: LAYERS/HEADS/NUMBERS/BITS/TOKENS[/SEQUENCES[/WINDOW]].",
        ),
    ] = None,
    state: Annotated[str, typer.Option("--state", metavar="BYTES", help="Recurrent state.")] = "0B",
    activations: Annotated[str, typer.Option("--activations", metavar="BYTES", help="Activations.")] = "0B",
    workspace: Annotated[str, typer.Option("--workspace", metavar="BYTES", help="Workspace.")] = "0B",
    system: Annotated[
        str, typer.Option("--system", metavar="BYTES", help="Operating system, the rest.")
    ] = "0B",
    total: Annotated[str | None, _Bytes] = None,
    assignable: Annotated[
        str | None,
        typer.Option(
            "--gpu-assignable", "--vram", metavar="BYTES", help="Of these, the accelerator's at most."
        ),
    ] = None,
    unified: Annotated[
        bool, typer.Option("--unified", help="One memory for processor and accelerator.")
    ] = False,
    announced: Annotated[
        bool, typer.Option("--announced", help="The machine's figures are announced, not measured.")
    ] = False,
    offloaded: Annotated[
        str,
        typer.Option(
            "--offloaded", metavar="SHARE", help="Share of the weights in the host's memory, 0 to 1."
        ),
    ] = "0",
    link: Annotated[
        str | None, typer.Option("--link", metavar="RATE", help="Between the two, such as 64GB/s.")
    ] = None,
    json: Json = False,
) -> None:
    """Add up what a model needs, term by term, and hold it against a machine.

    What the accelerator may have of unified memory is a part of it and is never added to it. Idle experts need
    memory too. No speed is said: that needs a measurement.
    """
    width = count(bits, "bits")
    size, shared = _group(_USUAL if group is None and width < FULL_BITS else group)
    weights = Weights(
        count(parameters, "parameters"),
        count(active or parameters, "parameters"),
        width,
        scale_bits=shared,
        group=size,
    )
    beside = Beside(*(quantity(text, BYTES) for text in (state, activations, workspace, system)))
    machine = None
    if total is not None:
        given = None if assignable is None else quantity(assignable, BYTES)
        machine = Machine(quantity(total, BYTES), given, unified, measured=not announced)
    elif assignable is not None:
        machine = Machine(quantity(assignable, BYTES), None, unified, measured=not announced)
    found = plan_memory(
        weights,
        _cache(cache),
        beside,
        machine,
        offloaded=count(offloaded, "shares"),
        link=None if link is None else quantity(link, BYTE_RATE),
    )
    if group is None and shared:
        usual = (
            f"quantised weights are taken to share {shared} bits in groups of {size}; --group says otherwise"
        )
        found = found._replace(assumptions=(*found.assumptions, usual))
    _tell_memory(found, json=json)
    if found.fits is False:
        raise typer.Exit(1)


def _group(text: str | None) -> tuple[int, int]:
    if text is None:
        return 1, 0
    size, _, shared = text.partition("/")
    return whole(size, "weights of a group"), whole(shared, "bits of a group")


def _tell_memory(found: MemoryPlan, *, json: bool) -> None:
    if json:
        write_json(
            {
                "terms": [
                    {"name": term.name, "bytes": float(term.bytes), "how": term.how} for term in found.terms
                ],
                "needed_bytes": float(found.needed),
                "host_bytes": float(found.host),
                "cap_bytes": None if found.cap is None else float(found.cap),
                "fits": found.fits,
                "link_s_per_token": None if found.link_s is None else float(found.link_s),
                "compute_parameters": float(found.compute_parameters),
                "assumptions": found.assumptions,
            }
        )
        return
    rows: list[tuple[object, ...]] = [(term.name, gigabytes(term.bytes), term.how) for term in found.terms]
    rows.append(("needed", gigabytes(found.needed), ""))
    if found.host:
        rows.append(("in the host's memory", gigabytes(found.host), "the share that was put off"))
    if found.cap is not None:
        rows.append(("there is", gigabytes(found.cap), "it fits" if found.fits else "it does not fit"))
    if found.link_s is not None:
        rows.append(("over the link", f"{decimal(found.link_s * 1000, 1)} ms", "for each token, at best"))
    write_table(("of", "#memory!", "how"), rows)
    _assume(found.assumptions)


def _assume(sentences: Sequence[str]) -> None:
    for sentence in sentences:
        say(f"  {sentence}")


@app.command()
def cache(
    kept: Annotated[
        str,
        typer.Argument(
            metavar="LAYERS/HEADS/NUMBERS/BITS/TOKENS[/SEQUENCES[/WINDOW]]",
            help="Such as 32/8/128/16/131072.",
        ),
    ],
    json: Json = False,
) -> None:
    """Say how large a key-value cache gets: HEADS are those of keys and values, BITS those of a number."""
    found = _cache(kept)
    if json:
        write_json({"bytes": float(found)})
    else:
        write(gigabytes(found))


@app.command()
def quantisation(
    size: Annotated[
        str, typer.Option("--size", metavar="COUNT", help="Parameters, such as 7B.", show_default=False)
    ],
    trained: Annotated[bool, typer.Option("--trained", help="It is trained while it is quantised.")] = False,
    json: Json = False,
) -> None:
    """List ways to quantise a model, what was published of each, and what is known to go wrong."""
    known = facts()
    rows = schemes_for(count(size, "parameters"), known, trained=trained)
    if json:
        write_json(
            [{**row.scheme._asdict(), "bytes": float(row.bytes), "warnings": row.warnings} for row in rows]
        )
        return
    write_table(
        ("scheme!", "#shrinks", "#weights", "loss", "careful"),
        [
            (
                row.scheme.name,
                f"{row.scheme.shrinks}x",
                gigabytes(row.bytes),
                row.scheme.loss,
                "; ".join(row.warnings),
            )
            for row in rows
        ],
    )
    say(f"  16 to 4 bits take {decimal(shrinking(Fraction(16), Fraction(4)) * 100, 0)} % off")
    say(f"  losses are claims: {rows[0].scheme.source}")


@app.command()
def throttle(
    peak: Annotated[
        str,
        typer.Option("--peak", metavar="RATE", help="Measured cold, such as 40token/s.", show_default=False),
    ],
    sustained: Annotated[
        str | None, typer.Option("--sustained", metavar="RATE", help="Measured after many runs.")
    ] = None,
    cooling: Annotated[Cooling, typer.Option("--cooling", help="Of the machine.")] = Cooling.PASSIVE,
    words: Annotated[
        str | None, typer.Option("--words", metavar="COUNT", help="How long so many words take, too.")
    ] = None,
    json: Json = False,
) -> None:
    """Say which rate to plan with: the one that was measured warm, or half of the peak under passive cooling."""
    limits = facts().limits
    found = admission(
        quantity(peak, TOKEN_RATE),
        None if sustained is None else quantity(sustained, TOKEN_RATE),
        cooling,
        limits.passive_share,
    )
    length = None if words is None else count(words, "words")
    taken = None
    if length is not None:
        by_word = (Fraction(1), limits.tokens_per_word)
        taken = tuple(reading_s(length, found.rate, tokens) for tokens in by_word)
    if json:
        write_json(
            {
                "tokens_per_s": float(found.rate),
                "lost_share": float(found.lost),
                "how": found.how,
                "words_s": None if taken is None else [float(each) for each in taken],
            }
        )
        return
    write(
        f"plan with {decimal(found.rate, 1)} tokens a second ({found.how}); {decimal(found.lost * 100, 1)} % lost"
    )
    if taken is not None:
        write(
            f"{words} words take {decimal(taken[0], 1)} s at a token a word, "
            f"{decimal(taken[1], 1)} s at {decimal(limits.tokens_per_word, 2)}"
        )


@app.command()
def speculative(
    acceptance: Annotated[
        str, typer.Option("--acceptance", metavar="SHARE", help="Of proposals, 0 to 1.", show_default=False)
    ],
    proposed: Annotated[
        int, typer.Option("--proposed", metavar="TOKENS", help="Before each check.", show_default=False)
    ],
    draft: Annotated[
        str,
        typer.Option("--draft-tokenizer", metavar="SHA256", help="Of the small model.", show_default=False),
    ],
    target: Annotated[
        str,
        typer.Option("--target-tokenizer", metavar="SHA256", help="Of the large one.", show_default=False),
    ],
    cost: Annotated[
        str, typer.Option("--cost", metavar="SHARE", help="Of a proposal, by that of a check.")
    ] = "0",
    json: Json = False,
) -> None:
    """Say how many tokens a check gives where a small model proposes: with another tokenizer it is not possible."""
    found = speculate(
        count(acceptance, "shares"),
        proposed,
        count(cost, "shares"),
        draft_tokenizer=draft,
        target_tokenizer=target,
    )
    if json:
        numbers = (found.tokens, found.speed_up)
        tokens, speed_up = (None if number is None else float(number) for number in numbers)
        write_json({"tokens_per_check": tokens, "speed_up": speed_up, "why": found.why})
    elif found.tokens is None or found.speed_up is None:
        write(found.why)
    else:
        write(
            f"{decimal(found.tokens, 2)} tokens for each check, {decimal(found.speed_up, 2)} times as fast at best"
        )
        claim = facts().claims["speculative decoding"]
        say(f"  claimed: {claim.text} ({claim.source})")
    if found.tokens is None:
        raise typer.Exit(1)


app.command()(breakeven)
app.command()(utilisation)
app.command()(latency)
app.command()(placement)
