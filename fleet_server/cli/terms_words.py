"""What a builder writes on the command line, or in a file of terms, as `drafting.Wishes`."""

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from edge_runtime.clock import Clock
from edge_runtime.errors import ConfigError
from edge_runtime.protocol.release import BUCKETS, Fit, Opening, ProbationTerms, ShadowTerms, TrackerRule
from fleet_server.cli.values import instant_ms
from fleet_server.releases.drafting import EVERYBODY
from fleet_server.releases.yaml_text import NoYaml, read_yaml

_OPENING = re.compile(r"(?P<percent>[0-9]{1,3}(?:\.[0-9]{1,2})?)%(?:@(?P<when>\S+))?")
_MAX_FILE_BYTES = 64 * 1024


class TermsFile(BaseModel):
    """A file of terms: what stands in it is signed as it is, the rest is as usual."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fit: Fit = Fit()
    shadow: ShadowTerms = ShadowTerms()
    probation: ProbationTerms = ProbationTerms()
    trackers: TrackerRule = TrackerRule.RESTART


def read_terms(path: Path | None) -> TermsFile:
    """Read a file of terms; None is none.

    Raises:
        ConfigError: it cannot be read, or a value in it cannot be used; the text names the field.
    """
    if path is None:
        return TermsFile()
    try:
        with path.open("rb") as stream:
            found = read_yaml(stream.read(_MAX_FILE_BYTES))
        # as JSON: lists are tuples there, and words are what the records call them
        return TermsFile.model_validate(found or {})
    except OSError as error:
        raise ConfigError(f"--terms {path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"--terms {path}: {where}: {first['msg']}") from None
    except NoYaml as error:
        raise ConfigError(f"--terms {path}: {error}") from None


def openings_of(texts: Sequence[str], clock: Clock) -> tuple[Opening, ...]:
    """Openings of words such as `2%`, `10%@2026-12-01T08:00Z`; none is everybody at once.

    Raises:
        ConfigError: one is not of that form, or they do not grow in share and time.
    """
    found: list[Opening] = []
    for text in texts:
        match = _OPENING.fullmatch(text.strip())
        share = None if match is None else round(float(match["percent"]) * BUCKETS / 100)
        if match is None or share is None or not 1 <= share <= BUCKETS:
            raise ConfigError(
                f"--open {text[:60]}: a share and a time, such as 2%@2026-12-01T08:00Z, or 100%"
            )
        start = instant_ms(match["when"], "--open", clock) or 0
        found.append(Opening(basis_points=share, not_before_ms=start))
    for before, after in itertools.pairwise(found):
        if after.basis_points <= before.basis_points or after.not_before_ms < before.not_before_ms:
            raise ConfigError("--open: each opening is larger than the one before it, and not sooner")
    return tuple(found) or EVERYBODY
