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
from edge_runtime.config.document import Document, Unreadable, read_document
from edge_runtime.config.node import NodeConfig
from edge_runtime.config.problem import InvalidConfig, Location, Problem
from edge_runtime.config.regular_file import NotRegularError, open_regular
from edge_runtime.config.secrets import Resolved, resolve_references, without_secrets
from edge_runtime.config.sentences import findings
from edge_runtime.config.words import kind_of

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
    """

    config: NodeConfig
    path: Path
    base: Path
    digest: str
    warnings: tuple[Problem, ...] = ()
    lines: Mapping[Location, int] = field(default_factory=dict, repr=False, compare=False)

    def locate(self, found: Iterable[Finding]) -> tuple[Problem, ...]:
        """Findings of later checks, such as `label_checks`, with their lines, in the order of the file."""
        document = Document(None, dict(self.lines), ())
        return tuple(sorted(_locate(found, document), key=_order))

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


def load_config(path: Path | str, environment: Mapping[str, str] | None = None) -> LoadedConfig:
    """Read and validate one configuration file.

    Args:
        path: a YAML file.
        environment: variables for `${env:NAME}`; the process's own when None.

    Raises:
        InvalidConfig: the file cannot be used; it lists every problem with its line.
    """
    path = Path(path)
    file = str(path)
    try:
        document = read_document(_read(path))
    except Unreadable as error:
        raise InvalidConfig(file, [error.problem]) from None
    if not isinstance(document.data, dict):
        raise InvalidConfig(file, [_not_a_configuration(document)])
    base = path.absolute().parent
    resolved = resolve_references(document.data, base, environment)
    config, found = _validate(resolved, document.data)
    problems = [*document.problems, *_locate(found, document)]
    if problems or config is None:
        raise InvalidConfig(file, sorted(problems, key=_order))
    warnings = _locate([*resolved.warnings, *advice(config, document.data)], document)
    return LoadedConfig(
        config, path, base, digest(document.data), tuple(sorted(warnings, key=_order)), document.lines
    )


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


def _locate(found: Iterable[Finding], document: Document) -> list[Problem]:
    return [Problem(text, at, document.line(at) if at else None) for at, text in found]


def _order(problem: Problem) -> tuple[int, str]:
    return problem.line or 0, problem.path
