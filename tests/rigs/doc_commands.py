"""Is this a command of ours? Asked of the very parsers that will read it: their commands, options and values.

`problem` says in a sentence what is wrong with a command; nothing is run.
"""

import contextlib
import io
import re
import runpy
import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import Any
from unittest import mock

import typer

from tests.conftest import REPOSITORY

OURS = ("edge-runtime", "fleet")
FOREIGN = frozenset(
    re.findall(
        r"\S+",
        """apt cat cd chmod cp curl df docker du echo exit export false git gpg grep head install journalctl jq
        kill less ln ls mkdir mosquitto mv od openssl pip printf promtool ps pytest python3 rm scp sed sha256sum
        sleep ssh stat systemctl tail tar tegrastats tee test touch tr true wait wc which""",
    )
)
"""Programs that are not ours and may stand in a block of shell."""

FOREIGN_OPTIONS = frozenset(
    ("--no-compile", "--system-site-packages", "--no-binary", "--help", "--install-completion")
)
"""Options of such programs that sentences name, and what each of our commands takes."""

_DECLARED = re.compile(r'(?:add_?(?:argument|option)\(\s*(?:"-\w",\s*)?|[!=]= )"(--[a-z][a-z-]+)"')
_WRAPPERS = {"sudo", "env", "nohup", "exec", "command", "."}
_PLACEHOLDER = re.compile(r"[A-Z][A-Z0-9_|:=@%.-]*|.*[$…].*|.*\.\.\..*")


@cache
def _root(program: str) -> Any:
    """The command line of `edge-runtime` or `fleet`."""
    if program == "fleet":
        from fleet_server.cli.main import app
    else:
        from edge_runtime.cli.main import app
    return typer.main.get_command(app)


def problem(words: Sequence[str], *, whole: bool) -> str | None:
    """What is wrong with a command, or None.

    Args:
        words: as the shell would hand them over.
        whole: it can be typed as it stands; else it is a note, which may leave out what is required.
    """
    words = _unwrapped(list(words))
    if not words:
        return None
    name = PurePosixPath(words[0]).name
    if name in OURS:
        return _of_ours(name, words[1:], whole=whole)
    if re.fullmatch(r"python[\d.]*", name) and words[1:2] == ["-m"] and len(words) > 2:
        return _of_module(words[2], words[3:])
    if name == "make":
        return _of_make(words[1:])
    if name == "pytest":
        return _of_pytest(words[1:])
    if (REPOSITORY / words[0]).is_file():
        return _of_script(words[0], words[1:])
    if whole and name not in FOREIGN and not words[0].startswith("$"):
        return f"{words[0]}: no program of ours, no file here, and not one that pages may use"
    return None


def is_ours(words: Sequence[str]) -> bool:
    """Whether a line of prose is a command of ours at all."""
    words = _unwrapped(list(words))
    if not words:
        return False
    name = PurePosixPath(words[0]).name
    if name in OURS:
        return len(words) > 1
    return (name, *words[1:2]) in {("python", "-m"), ("python3", "-m")} and len(words) > 2


def _unwrapped(words: list[str]) -> list[str]:
    while words and (words[0] in _WRAPPERS or words[0] in ("runuser", "timeout")):
        if words[0] == "runuser":
            words = words[words.index("--") + 1 :] if "--" in words else []
        elif words[0] == "timeout":
            words = words[2:]
        elif words[0] == ".":
            words = []  # a file is read into the shell
        else:
            words = words[1:]
            while words and (words[0].startswith("-") or re.match(r"\w+=", words[0])):
                words = words[1:]
    return words


def _of_ours(program: str, words: list[str], *, whole: bool) -> str | None:
    command, path, parent = _root(program), program, None
    while True:
        context = command.context_class(command, info_name=path, parent=parent, **command.context_settings)
        try:
            values, rest, _ = command.make_parser(context).parse_args(list(words))
        except Exception as error:  # noqa: BLE001 - what click raises for a wrong command line
            named = not whole and "requires an argument" in _said(
                error
            )  # a sentence that only names an option
            return None if named else f"{path}: {_said(error)}"
        if not hasattr(command, "get_command"):
            return _of_leaf(command, context, path, values, rest, whole=whole)
        if not rest or (not whole and _PLACEHOLDER.fullmatch(rest[0])):
            alone = values or getattr(command, "invoke_without_command", False) or not whole
            return None if alone else f"{path}: a command is missing"
        following = command.get_command(context, rest[0])
        if following is None:
            return f"{path}: there is no command {rest[0]}"
        command, path, parent, words = following, f"{path} {rest[0]}", context, rest[1:]


def _of_leaf(
    command: Any, context: Any, path: str, values: dict[str, Any], rest: list[str], *, whole: bool
) -> str | None:
    if whole and rest:
        return f"{path}: takes no {' '.join(rest)}"
    for parameter in command.get_params(context):
        given = values.get(parameter.name)
        if given in (None, (), []) or isinstance(given, bool):
            if whole and parameter.required and not parameter.envvar:
                return f"{path}: {parameter.opts[-1]} is missing"
            continue
        typed = [given] if isinstance(given, str) else [one for one in given if isinstance(one, str)]
        if parameter.callback is None and typed and not any(map(_PLACEHOLDER.fullmatch, typed)):
            try:
                parameter.process_value(context, given)
            except Exception as error:  # noqa: BLE001 - the same
                if not re.search(r"does not exist|[Nn]o such file", _said(error)):  # it does, for the reader
                    return f"{path}: {_said(error)}"
    return None


def _said(error: Exception) -> str:
    return str(error.format_message()) if hasattr(error, "format_message") else str(error)


# -- modules, make, scripts ----------------------------------------------------------------------------------------


class _Caught(BaseException):
    """The parser that a module was about to use."""

    def __init__(self, parser: Any) -> None:
        super().__init__()
        self.parser = parser


@cache
def _parser_of(module: str) -> Any:
    """The `argparse` parser of `python -m module`, or None where it has none: it is started up to the parsing."""

    def caught(parser: Any, *_: Any, **__: Any) -> None:
        raise _Caught(parser)

    with (
        mock.patch("argparse.ArgumentParser.parse_args", caught),
        mock.patch.object(sys, "argv", [module]),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except _Caught as found:
            return found.parser
    raise AssertionError(f"{module} parses nothing")


def _of_module(module: str, words: list[str]) -> str | None:
    top = module.partition(".")[0]
    if not (REPOSITORY / top).is_dir():
        return None  # venv, pip
    place = REPOSITORY / module.replace(".", "/")
    if not (place.with_suffix(".py").is_file() or (place / "__main__.py").is_file()):
        return f"python -m {module}: there is no such module"
    if not words or top in ("tests", "docs"):
        return None
    said = io.StringIO()
    bare = [word for word in words if word not in ("…", "...")]
    try:
        with contextlib.redirect_stderr(said):
            _parser_of(module).parse_args([re.sub(r"^@(FILE)|\|.*$", r"\1", word) for word in bare])
    except SystemExit:
        if "arguments are required" not in said.getvalue():
            return f"python -m {module}: {said.getvalue().strip().splitlines()[-1]}"
    return None


def _of_make(words: list[str]) -> str | None:
    text = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", text, re.M))
    variables = set(re.findall(r"^([A-Z_]+) *[?:]?=", text, re.M)) | set(re.findall(r"([A-Z]+)=", text))
    for word in words:
        name, sign, _ = word.partition("=")
        if (name not in variables) if sign else (word not in targets and word not in ("…", "TARGET")):
            return f"make: there is no {'variable' if sign else 'target'} {name}"
    return None


def _of_pytest(words: list[str]) -> str | None:
    """Its own options are its own matter; folders of tests and what our plugin adds are ours."""
    ours = (REPOSITORY / "hil/plugin.py").read_text(encoding="utf-8")
    for place, word in enumerate(words):
        if word.startswith("--rig") and f'"{word.partition("=")[0]}"' not in ours:
            return f"pytest: our plugin has no {word}"
        is_place = not word.startswith("-") and (place == 0 or not words[place - 1].startswith("-"))
        if is_place and not (REPOSITORY / word.partition("::")[0]).exists():
            return f"pytest: there is no {word}"
    return None


def _of_script(script: str, words: list[str]) -> str | None:
    text = (REPOSITORY / script).read_text(encoding="utf-8")
    for word in words:
        if word.startswith("--") and word.partition("=")[0] not in text:
            return f"{script}: has no {word}"
    return None


# -- options that sentences name -----------------------------------------------------------------------------------


@cache
def options() -> frozenset[str]:
    """Every option of every command of ours, and that a module or a script of this repository declares."""
    found = set(FOREIGN_OPTIONS)
    for program in OURS:
        found.update(_options_of(_root(program), None))
    for folder in ("edge_runtime", "fleet_server", "sim", "hil", "deploy", "tests/bench"):
        for path in (REPOSITORY / folder).rglob("*.py"):
            found.update(_DECLARED.findall(path.read_text(encoding="utf-8")))
        for path in (REPOSITORY / folder).rglob("*.sh"):
            found.update(re.findall(r"(?<![\w-])--[a-z][a-z-]+", path.read_text(encoding="utf-8")))
    return frozenset(found)


def _options_of(command: Any, parent: Any) -> Iterator[str]:
    context = command.context_class(command, info_name="", parent=parent)
    for parameter in command.get_params(context):
        yield from (*parameter.opts, *parameter.secondary_opts)
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from _options_of(command.get_command(context, name), context)
