"""`edge-runtime config init`: ask, look through the camera, write a configuration that works."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import typer
from pydantic import TypeAdapter
from rich.console import Console
from rich.prompt import Confirm, Prompt

from edge_runtime.cli.report import say
from edge_runtime.config import load_config
from edge_runtime.config.source import SourceConfig
from edge_runtime.config.starter import (
    CameraAnswer,
    Starter,
    camera_name,
    choose_object,
    data_class,
    guess_source,
    render,
    slug,
)
from edge_runtime.errors import ConfigError, EdgeRuntimeError
from edge_runtime.packages import ModelManifest, ModelPackage, ensure_weights, open_package
from edge_runtime.packages.manifest import MANIFEST_NAME
from edge_runtime.telemetry import configure_logging

Answer = TypeVar("Answer")

_SECRET_MODE = 0o600

_CLASSES = (
    "public: nobody minds who sees it",
    "internal: for the people of this site",
    "confidential: needs a reason to be seen",
    "restricted: people can be recognised, or worse",
)


@dataclass(frozen=True, slots=True)
class Request:
    """What the flags of `config init` say; None is asked for, or an error where nobody may be asked.

    Attributes:
        camera: URL, device, file, folder or pipeline.
        model: folder or archive of a model package.
        label: how sensitive what the camera sees is.
        target: label of the model that the first rule looks for.
        name: of the camera.
        out: the configuration to write.
        still: where to save a picture of the camera.
        ask: whether a person may be asked.
        force: overwrite existing files.
        look: open the camera.
        timeout_s: a picture must be there by then.
    """

    camera: str | None
    model: str | None
    label: str | None
    target: str | None
    name: str | None
    out: Path
    still: Path | None
    ask: bool
    force: bool
    look: bool
    timeout_s: float


def write_first_config(request: Request) -> Path:
    """Write the configuration that `request` and the answers describe, and check it.

    Returns:
        The file.

    Raises:
        ConfigError: an answer is missing or cannot be used, or a file exists.
        SourceError: the camera delivers no picture.
        PackageError: the model package does not open.
    """
    configure_logging("critical")  # what the camera does on the way is said once, at the end
    out = request.out
    folder = out.absolute().parent
    if not folder.is_dir():
        raise ConfigError(f"{out}: there is no folder {folder}")
    _refuse_existing(out, request)
    camera = _answer(request, "camera", request.camera, _CAMERA_QUESTION, None, _camera)
    name = camera_name(request.name or camera.name)
    package_path, package = _answer(
        request, "model", request.model or _only_package(request), _MODEL_QUESTION, _only_package(), _package
    )
    licence = _accepted_licence(package.manifest, request)
    for line in _CLASSES if request.ask and request.label is None else ():
        say(f"  {line}")
    label = _answer(
        request, "label", request.label, "How sensitive is what it sees", "restricted", data_class
    )
    labels = package.manifest.labels
    target = _answer(
        request,
        "object",
        request.target or (None if request.ask else choose_object(labels)),
        "What should the first rule look for",
        choose_object(labels),
        lambda text: choose_object(labels, text),
    )
    still = request.still or folder / f"{name}.jpg"
    seen = None
    if request.look:
        seen = _look(camera, name, request, still)
    secret = f"{name}.{camera.key}.secret" if camera.holds_secret else None
    if secret is not None:
        _write(folder / secret, camera.value + "\n", request, _SECRET_MODE)
    starter = Starter(
        camera=_relative_camera(camera, folder),
        name=name,
        secret_file=secret,
        model=slug(package.manifest.name, "model"),
        package=_relative(package_path, folder),
        licence=licence,
        label=label,
        target=target,
        seen=seen,
        still=_relative(still, folder) if seen else None,
    )
    _write(out, render(starter), request, 0o644)
    loaded = load_config(out)
    for warning in loaded.warnings:
        say(f"warning: {warning.show(str(out))}")
    if seen:
        typer.echo(f"{camera.shown}: {seen}; a still lies in {still}")
    if secret is not None:
        typer.echo(f"{folder / secret}: holds the camera's credentials; only its owner can read it")
    typer.echo(f"{out}: written and valid; run it with: edge-runtime run {out}")
    return out


_CAMERA_QUESTION = "Camera (rtsp:// or http:// URL, /dev/videoN, video file, folder of images, pipeline)"
_MODEL_QUESTION = "Model package (folder or archive)"


def _answer(
    request: Request,
    flag: str,
    given: str | None,
    question: str,
    default: str | None,
    read: Callable[[str], Answer],
) -> Answer:
    """The flag's value, or what a person answers; a person who errs is told why and asked again."""
    if given is not None:
        return read(given)
    if not request.ask:
        raise ConfigError(f"--{flag} is missing, and with --yes nobody is asked")
    while True:
        try:
            text = Prompt.ask(question, default=default, console=Console(stderr=True))
        except EOFError:
            raise ConfigError(f"no answer to: {question}; give --{flag}") from None
        try:
            return read(text or "")
        except EdgeRuntimeError as error:
            say(f"  {error}")


def _camera(text: str) -> CameraAnswer:
    return guess_source(text, Path.cwd())


def _package(text: str) -> tuple[Path, ModelPackage]:
    if not text.strip():
        raise ConfigError("the model is empty: give the folder or archive of a model package")
    path = Path(text.strip()).expanduser()
    if path.is_dir():
        ensure_weights(path)
    return path, open_package(path)


def _accepted_licence(manifest: ModelManifest, request: Request) -> str | None:
    """The id of the model's licence, if it must be accepted and was; None if it may be used as it is."""
    if manifest.licence.permissive:
        return None
    licence = manifest.licence
    say(f"the licence of {manifest.name} is {licence.spdx}: {licence.evidence}")
    if request.ask:
        try:
            agreed = Confirm.ask("May it be used here", default=False, console=Console(stderr=True))
        except EOFError:
            agreed = False
        if not agreed:
            raise ConfigError(f"the licence of {manifest.name} was not accepted; nothing was written")
    else:
        say(f"warning: accepted by --yes: {licence.spdx}")
    return licence.spdx


def _only_package(request: Request | None = None) -> str | None:
    """The one package under ./models, if there is exactly one; with a request, only where nobody is asked."""
    if request is not None and request.ask:
        return None
    found = sorted(Path("models").glob(f"*/{MANIFEST_NAME}"))
    return str(found[0].parent) if len(found) == 1 else None


def _look(camera: CameraAnswer, name: str, request: Request, still: Path) -> str:
    """Open the camera, save a picture, and say what was seen."""
    import cv2

    from edge_runtime.cli.probe import probe

    _refuse_existing(still, request)
    say(f"opening {camera.shown} …")
    source: SourceConfig = TypeAdapter(SourceConfig).validate_python(camera.fields())
    found = probe(name, source, Path.cwd(), request.timeout_s)
    try:
        written, data = cv2.imencode(still.suffix or ".jpg", found.frame.image)
    except cv2.error:
        written = False
    if not written:
        raise ConfigError(f"--still {still}: OpenCV writes no {still.suffix} files; name a .jpg or .png")
    try:
        still.write_bytes(data.tobytes())
    except OSError as error:
        raise ConfigError(f"--still {still}: cannot be written: {error.strerror}") from error
    return found.seen


def _relative_camera(camera: CameraAnswer, folder: Path) -> CameraAnswer:
    if camera.key != "path":
        return camera
    return CameraAnswer(camera.kind, camera.key, _relative(Path(camera.value), folder), camera.name)


def _relative(path: Path, folder: Path) -> str:
    """`path` as it stands in a file in `folder`: relative where it lies below or beside, else absolute."""
    absolute = path.absolute()
    relative = os.path.relpath(absolute, folder)
    climbs = relative.count("..")
    return relative if climbs <= 1 or len(relative) < len(str(absolute)) else str(absolute)


def _refuse_existing(path: Path, request: Request) -> None:
    if not request.force and (path.exists() or path.is_symlink()):
        raise ConfigError(f"{path} exists; give another name, or --force to overwrite it")


def _write(path: Path, text: str, request: Request, mode: int) -> None:
    """Write a file whose mode is right from its first byte."""
    _refuse_existing(path, request)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
            file.write(text)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error
