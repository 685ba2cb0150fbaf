"""From a file to a validated configuration, or to every reason why not, each with its line."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from edge_runtime.config.advice import advice
from edge_runtime.config.checks import Finding, cross_checks
from edge_runtime.config.node import NodeConfig
from edge_runtime.config.overlay import Overlaid, Overlay, guarded_deadlines, lay_over
from edge_runtime.config.problem import InvalidConfig
from edge_runtime.config.regular_file import NotRegularError, open_regular
from edge_runtime.config.secrets import Resolved, resolve_references, without_secrets
from edge_runtime.config.sentences import findings
from edge_runtime.config.words import kind_of
from edge_runtime.document import Document, Location, Problem, Unreadable, read_document

MAX_FILE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration and where it came from.

    Attributes:
        config: the validated models, references resolved.
        path: the file as it was named.
        base: the absolute folder of the file; paths in the configuration are relative to it.
        digest: `sha256:` of the file's content in canonical form: independent of comments, order of keys and
            layout, with references unresolved and literal passwords masked.
        warnings: what is allowed but regretted, in the order of the file.
        lines: 1-based line of each location in the file.
        overlay: what a release of the fleet lays over the file; `digest` is then of both together.
        overlaid: what became of it; None without an overlay.
    """

    config: NodeConfig
    path: Path
    base: Path
    digest: str
    warnings: tuple[Problem, ...] = ()
    lines: Mapping[Location, int] = field(default_factory=dict, repr=False, compare=False)
    overlay: Overlay | None = None
    overlaid: Overlaid | None = field(default=None, repr=False, compare=False)

    def locate(self, found: Iterable[Finding]) -> tuple[Problem, ...]:
        """Findings of later checks, such as `label_checks`, with their lines, in the order of the file."""
        places = _Places(Document(None, dict(self.lines), ()), self.overlay, self.overlaid)
        return tuple(sorted(places.locate(found), key=_order))

    def refuse(self, found: Iterable[Finding]) -> None:
        """Stop here if later checks found anything.

        Raises:
            InvalidConfig: they did; it lists every finding with its line.
        """
        problems = self.locate(found)
        if problems:
            raise InvalidConfig(str(self.path), problems)

    def resolve(self, text: str) -> Path:
        """A path of the configuration, made absolute."""
        return self.base / Path(text).expanduser()


def load_config(
    path: Path | str, environment: Mapping[str, str] | None = None, overlay: Overlay | None = None
) -> LoadedConfig:
    """Read and validate one configuration file.

    Args:
        path: a YAML file.
        environment: variables for `${env:NAME}`; the process's own when None.
        overlay: of a release, laid over the file's data; the file itself stays as it is.

    Raises:
        InvalidConfig: the file cannot be used, alone or with the overlay; it lists every problem with its line.
    """
    if overlay is not None:
        return _with_overlay(load_config(path, environment), overlay, environment)
    path = Path(path)
    file = str(path)
    try:
        document = read_document(_read(path))
    except Unreadable as error:
        raise InvalidConfig(file, [error.problem]) from None
    if not isinstance(document.data, dict):
        raise InvalidConfig(file, [_not_a_configuration(document)])
    return _checked(path, document, _Places(document), environment)


def _with_overlay(own: LoadedConfig, overlay: Overlay, environment: Mapping[str, str] | None) -> LoadedConfig:
    document = read_document(_read(own.path))
    if digest(document.data) != own.digest:
        raise InvalidConfig(str(own.path), [Problem("changed while it was read; start again")])
    overlaid = lay_over(document.data, overlay)
    places = _Places(document, overlay, overlaid)
    if overlaid.problems:
        problems = [places.of_overlay(at, text) for at, text in overlaid.problems]
        raise InvalidConfig(overlay.file, sorted(problems, key=_order))
    laid = _checked(own.path, Document(overlaid.data, document.lines, ()), places, environment)
    laid.refuse(guarded_deadlines(own.config, laid.config))
    return laid


def _checked(
    path: Path, document: Document, places: "_Places", environment: Mapping[str, str] | None
) -> LoadedConfig:
    base = path.absolute().parent
    resolved = resolve_references(document.data, base, environment)
    config, found = _validate(resolved, document.data)
    problems = [*document.problems, *places.locate(found)]
    if problems or config is None:
        raise InvalidConfig(str(path), sorted(problems, key=_order))
    warnings = places.locate([*resolved.warnings, *advice(config, document.data)])
    return LoadedConfig(
        config,
        path,
        base,
        digest(document.data),
        tuple(sorted(warnings, key=_order)),
        document.lines,
        places.overlay,
        places.overlaid,
    )


@dataclass(frozen=True, slots=True)
class _Places:
    """Where findings stand: in the file, or in the overlay that set the value."""

    document: Document
    overlay: Overlay | None = None
    overlaid: Overlaid | None = None

    def locate(self, found: Iterable[Finding]) -> list[Problem]:
        return [self._problem(at, text) for at, text in found]

    def of_overlay(self, at: Location, text: str) -> Problem:
        assert self.overlay is not None
        return Problem(text, at, self.overlay.document.line(at), self.overlay.file)

    def _problem(self, at: Location, text: str) -> Problem:
        source = None if self.overlaid is None else self.overlaid.source(at)
        if source is not None and self.overlay is not None:
            return Problem(text, at, self.overlay.document.line(source), self.overlay.file)
        return Problem(text, at, self.document.line(at) if at else None)


def digest(data: Any) -> str:
    """`sha256:` of plain configuration data in canonical form, without secrets."""
    canonical = json.dumps(without_secrets(data), sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def _read(path: Path) -> str:
    """The text of the file, bounded in size.

    Raises:
        Unreadable: there is no such file, or it holds no text.
    """
    try:
        with open_regular(path) as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise Unreadable(Problem("there is no such file; edge-runtime config init writes one")) from None
    except IsADirectoryError:
        raise Unreadable(Problem("is a folder; name the configuration file in it")) from None
    except NotRegularError as error:
        raise Unreadable(Problem(f"is {error.kind}; name a configuration file")) from None
    except (OSError, ValueError) as error:
        raise Unreadable(Problem(f"cannot be read: {getattr(error, 'strerror', None) or error}")) from None
    if len(raw) > MAX_FILE_BYTES:
        raise Unreadable(
            Problem(f"is larger than {MAX_FILE_BYTES // 1024} KiB: this is no configuration file")
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Unreadable(Problem("is not UTF-8 text; save it as UTF-8", line=line)) from None


def _not_a_configuration(document: Document) -> Problem:
    if document.data is None:
        return Problem("is empty; edge-runtime config init writes a working file")
    return Problem(
        f"must be a section with keys such as models and cameras, not {kind_of(document.data)}",
        line=document.line(()),
    )


def _validate(resolved: Resolved, unresolved: Any) -> tuple[NodeConfig | None, list[Finding]]:
    found: list[Finding] = [*_foreign(unresolved), *resolved.problems]
    unresolvable = {at for at, _ in resolved.problems}
    config = None
    try:
        config = NodeConfig.model_validate(resolved.data, context={"checked": True})
    except ValidationError as error:
        found += findings(error, NodeConfig, resolved.data, resolved.secret)
    found += cross_checks(resolved.data)
    # A reference that could not be resolved is one problem; what validation says about its text is noise.
    noise = [(at, text) for at, text in found if at in unresolvable and (at, text) not in resolved.problems]
    return config, [finding for finding in dict.fromkeys(found) if finding not in noise]


def _foreign(data: Any) -> list[Finding]:
    """A sentence for those who bring the file of another program."""
    cameras = data.get("cameras")
    sections = list(cameras.values()) if isinstance(cameras, dict) else []
    if "models" not in data and any(isinstance(camera, dict) and "ffmpeg" in camera for camera in sections):
        text = (
            "this is a Frigate configuration, which has another format; edge-runtime config init writes ours"
        )
        return [((), text)]
    return []


def _order(problem: Problem) -> tuple[int, str]:
    return problem.line or 0, problem.path
