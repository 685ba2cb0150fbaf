"""The configuration that the fleet assigned: an overlay from the store of releases, over the device's own file.

Only the process of the cameras goes by it: it may set rules, thresholds, names of labels and the policy. The policy
lies at one place for all processes that decide by it, and takes precedence there over the device's own.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.config import InvalidConfig, LoadedConfig, label_checks, load_config, read_overlay
from edge_runtime.config.model_checks import class_checks
from edge_runtime.config.overlay import POLICY_NAME
from edge_runtime.durable import write_file
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.gate.policy_file import read_policy
from edge_runtime.node.models import ReadyModel, retune
from edge_runtime.packages import ModelManifest, open_package, read_manifest
from edge_runtime.protocol.release_values import Values
from edge_runtime.protocol.swap import GivenUp
from edge_runtime.protocol.update import CONFIGURATION_SLOT, UpdateCode
from edge_runtime.telemetry import get_logger
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.store.places import Places
from edge_runtime.updates.store.slots import read_slots
from edge_runtime.updates.store.starting import begin_start

_SHOWN = 300
_MOST_TOLD = 3


@dataclass(frozen=True, slots=True)
class Assigned:
    """What the process of the cameras goes by.

    Attributes:
        own: the device's configuration as its file has it.
        loaded: the same with the overlay of a release; `own` where there is none.
        release: bundle's SHA-256 of the release; None where there is none.
        given_up: the release that should have been taken at the start, and why it was not.
    """

    own: LoadedConfig
    loaded: LoadedConfig
    release: str | None = None
    given_up: GivenUp | None = None


def assigned_at_start(own: LoadedConfig, updates: Path | None) -> Assigned:
    """What holds at a start: what slots.json names, what held before it, or the device's own; the first that fits.

    A start with a release on trial is counted. The policy that belongs to what holds is put in its place.

    Args:
        own: the device's configuration.
        updates: folder of releases; None where the device takes none.
    """
    if updates is None:
        return Assigned(own, own)
    found = _first_that_fits(own, updates)
    with contextlib.suppress(OSError):  # a full disk: the policy that lies there holds
        put_policy(updates, found.loaded)
    return found


def open_configuration(
    own: LoadedConfig,
    files: Path,
    values: Values,
    release: str,
    manifests: Mapping[str, ModelManifest],
) -> LoadedConfig:
    """The device's configuration with a release over it, checked as any configuration is.

    Args:
        own: the device's configuration; its file is read again.
        files: folder of the release's files.
        values: of this device.
        release: bundle's SHA-256.
        manifests: of the models in use, by their names in the configuration.

    Raises:
        UpdateRefused: `bad-configuration`, with the first problems as sentences.
    """
    try:
        loaded = load_config(own.path, overlay=read_overlay(files, values, release))
        if load_config(own.path).digest != own.digest:
            raise EdgeRuntimeError(
                f"{own.path} has changed since perception began: it is taken at the next start"
            )
        loaded.refuse(
            [
                *label_checks(loaded.config, {name: one.labels for name, one in manifests.items()}),
                *class_checks(loaded.config, {name: one.data_classes for name, one in manifests.items()}),
            ]
        )
        policy = None if loaded.overlay is None else loaded.overlay.policy
        if policy is not None:
            if loaded.config.delivery is None:
                raise EdgeRuntimeError("it brings a policy, and this device delivers nothing")
            read_policy(policy)
    except EdgeRuntimeError as error:
        raise UpdateRefused(UpdateCode.BAD_CONFIGURATION, _sentences(error, files)) from error
    return loaded


def put_policy(updates: Path, loaded: LoadedConfig) -> None:
    """Let all processes decide by a configuration's policy: they follow the file. Durable when it returns.

    Raises:
        OSError: it cannot be written; what lay there still holds.
    """
    place = updates / POLICY_NAME
    policy = None if loaded.overlay is None else loaded.overlay.policy
    wanted = None if policy is None else policy.read_bytes()
    present = place.read_bytes() if place.exists() else None
    if wanted == present:
        return
    if wanted is None:
        place.unlink()
    else:
        write_file(place, wanted, 0o600)


def fitting(
    assigned: Assigned, updates: Path | None, models: Mapping[str, ReadyModel]
) -> tuple[Assigned, Mapping[str, ReadyModel]]:
    """What holds once the models are open: one of them may have fallen back to another than was expected.

    Args:
        assigned: from `assigned_at_start`.
        updates: folder of releases.
        models: in use.

    Returns:
        What holds, and the models under its thresholds.
    """
    labels = {name: ready.model.manifest.labels for name, ready in models.items()}
    problem = next((text for _, text in label_checks(assigned.loaded.config, labels)), None)
    if assigned.release is None or updates is None or problem is None:
        return assigned, models
    get_logger().error("an assigned configuration is not taken", release=assigned.release, why=problem)
    models = {name: retune(assigned.own.config, name, ready) for name, ready in models.items()}
    with contextlib.suppress(OSError):
        put_policy(updates, assigned.own)
    given_up = GivenUp(release=assigned.release, code=UpdateCode.BAD_CONFIGURATION, text=problem[:_SHOWN])
    return Assigned(assigned.own, assigned.own, None, assigned.given_up or given_up), models


def manifests_at_start(own: LoadedConfig, updates: Path | None) -> dict[str, ModelManifest]:
    """Manifests of the models that a start opens, as far as they can be read: of releases, or of packages."""
    slots = None if updates is None else read_slots(updates)
    found = {}
    for name, model in own.config.models.items():
        active = None if slots is None else slots.of(name).active
        folder = own.resolve(model.package)
        if active is not None and updates is not None and Places(updates).files(active).is_dir():
            folder = Places(updates).files(active)
        with contextlib.suppress(EdgeRuntimeError, OSError):
            found[name] = open_package(folder).manifest if folder.is_file() else read_manifest(folder)
    return found


def _first_that_fits(own: LoadedConfig, updates: Path) -> Assigned:
    manifests = manifests_at_start(own, updates)
    chosen, state = begin_start(updates, CONFIGURATION_SLOT), read_slots(updates).of(CONFIGURATION_SLOT)
    given_up = None
    if chosen.gave_up is not None:
        given_up = GivenUp(release=chosen.gave_up, code=UpdateCode.CRASH_LOOP, text=chosen.why[:_SHOWN])
    tried = [(chosen.release, chosen.values or {})]
    if chosen.release is not None and state.last_good != chosen.release:
        tried.append((state.last_good, state.last_good_values))
    for release, values in tried:
        if release is None:
            break
        try:
            loaded = open_configuration(own, Places(updates).files(release), values, release, manifests)
        except UpdateRefused as refused:
            get_logger().error("an assigned configuration is not taken", release=release, why=str(refused))
            given_up = given_up or GivenUp(release=release, code=refused.code, text=str(refused)[:_SHOWN])
            continue
        return Assigned(own, loaded, release, given_up)
    return Assigned(own, own, None, given_up)


def _sentences(error: EdgeRuntimeError, files: Path) -> str:
    """The first problems in one line; the folder of the release is nobody's business."""
    lines = error.lines() if isinstance(error, InvalidConfig) else [str(error)]
    told = [line.replace(f"{files}/", "") for line in lines[:_MOST_TOLD]]
    more = [] if len(lines) <= _MOST_TOLD else [f"and {len(lines) - _MOST_TOLD} more problems"]
    return "; ".join([*told, *more])
