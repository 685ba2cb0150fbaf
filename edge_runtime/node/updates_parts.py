"""From a device's configuration and identity to the driver of its updates."""

import hashlib
import os
import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from securesystemslib.signer import CryptoSigner

from edge_runtime.clock import Clock
from edge_runtime.config import LoadedConfig
from edge_runtime.config.updates import MIB, UpdatesConfig
from edge_runtime.health import HealthReader, read_health
from edge_runtime.identity import Identity, ssl_context
from edge_runtime.identity.keys import read_key
from edge_runtime.node.accelerator import find_accelerator
from edge_runtime.node.hot_swap.at_start import is_slot
from edge_runtime.protocol.update import CONFIGURATION_SLOT, DeviceFacts
from edge_runtime.protocol.windows import Window, Windows, zone_of
from edge_runtime.state import StateDirectory
from edge_runtime.telemetry import get_logger
from edge_runtime.updates.download import (
    Budget,
    Downloader,
    DownloadRules,
    LocalCopies,
    Origin,
    default_route_interface,
    is_metered,
)
from edge_runtime.updates.machine import Deadlines, Rules
from edge_runtime.updates.process.errands import ErrandsOnThread
from edge_runtime.updates.process.facts import device_facts
from edge_runtime.updates.process.keeping import DiskFiles
from edge_runtime.updates.process.locks import Locks
from edge_runtime.updates.process.parts import OWN_FILES, Parts
from edge_runtime.updates.process.perception import PerceptionClient
from edge_runtime.updates.process.ports import Taking
from edge_runtime.updates.process.surroundings import DeviceSurroundings
from edge_runtime.updates.store import ReleaseStore
from edge_runtime.updates.trust import HttpFetch, Trust
from edge_runtime.uplink.budget import UPDATES_FILE, UPLINK_FILE, ByteBudget

_KB = 1000
_MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Assembly:
    """What does not change while the process runs.

    Attributes:
        config: the section `updates`.
        facts: of this machine.
        locks: of this device; one for the process, since it holds a lock.
    """

    loaded: LoadedConfig
    config: UpdatesConfig
    state: StateDirectory
    facts: DeviceFacts
    locks: Locks
    clock: Clock


def assembled(loaded: LoadedConfig, state: StateDirectory, clock: Clock) -> Assembly:
    """Look at the machine once.

    Args:
        loaded: a configuration that takes updates.
        state: of the device.
        clock: of the device.
    """
    config = loaded.config.updates or UpdatesConfig()
    root = loaded.resolve(loaded.config.guarding.monitor.root)
    gpu = find_accelerator(clock, root)
    facts = device_facts(
        clock,
        config.hardware,
        compute_capability=gpu.compute_capability,
        tensorrt=gpu.tensorrt,
        root=root,
    )
    return Assembly(loaded, config, state, facts, Locks(state.updates), clock)


def key_sha256(identity: Identity) -> str:
    """Of the device's public key (SPKI, DER): renewal makes another one, and assignments name it.

    Raises:
        IdentityError: the key cannot be read.
        OSError: the same.
    """
    public = read_key(identity.key_path.read_bytes()).public_key()
    return hashlib.sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def slots_of(loaded: LoadedConfig) -> tuple[str, ...]:
    """Models that a camera looks through and that can be assigned, and the configuration."""
    used = {camera.model for camera in loaded.config.cameras.values()}
    return (*sorted(name for name in used if is_slot(name)), CONFIGURATION_SLOT)


def rules_of(config: UpdatesConfig, device: str) -> Rules:
    """The machine's rules."""
    zone = zone_of(config.time_zone)
    windows = tuple(Window(window.days, window.start, window.end, zone) for window in config.windows)
    deadlines = Deadlines(
        download=int(config.download.deadline * 1000),
        prepare=int(config.prepare * 1000),
        wait=int(config.wait * 1000),
    )
    return Rules(device, deadlines, Windows(windows))


def parts_of(assembly: Assembly, identity: Identity) -> Parts:
    """The parts of a driver for one identity of this device.

    Raises:
        IdentityError: its key cannot be read.
        OSError: the folder of updates, or the key, cannot be used.
    """
    loaded, state, clock, config = assembly.loaded, assembly.state, assembly.clock, assembly.config
    proxy = None if loaded.config.delivery is None else loaded.config.delivery.uplink.proxy
    store = ReleaseStore(
        state.updates, quota_bytes=config.quota_mb * _MB, reserve_bytes=int(config.reserve_mb * _MB)
    )
    perception = PerceptionClient(state.perception_socket, clock)
    trust = Trust(
        state.updates,
        device=identity.device,
        key_sha256=key_sha256(identity),
        fetch=HttpFetch(identity.server_url, lambda: ssl_context(identity), clock=clock, proxy=proxy),
        clock=clock,
        born_ms=identity.not_before_ms,
    )
    return Parts(
        device=identity.device,
        slots=slots_of(loaded),
        trust=trust,
        fetch=_downloader(assembly, identity, store, proxy),
        store=store,
        taking=_takes(perception),
        around=_surroundings(assembly),
        refreshing=ErrandsOnThread("updates-refresh"),
        errands=ErrandsOnThread("updates-fetch"),
        keeping=DiskFiles(state.updates, OWN_FILES),
        signer=CryptoSigner(read_key(identity.key_path.read_bytes())),
        rules=rules_of(config, identity.device),
        clock=clock,
        nonce=lambda: secrets.token_hex(16),
        log=get_logger().info,
    )


def _takes(perception: PerceptionClient) -> Callable[[str], Taking]:
    return lambda _slot: perception


def _surroundings(assembly: Assembly) -> DeviceSurroundings:
    loaded, state, clock = assembly.loaded, assembly.state, assembly.clock
    reader = HealthReader(clock, loaded.resolve(loaded.config.guarding.monitor.root), disks=())
    return DeviceSurroundings(
        guard_socket=state.guard_socket,
        guard=f"{clock.wall().boot_id[:36]}/{os.getppid()}",
        may_move=loaded.config.guarding.profile is not None,
        locks=assembly.locks,
        known=assembly.facts,
        celsius=lambda: read_health(reader).hottest.celsius.value,
        clock=clock,
    )


def _downloader(assembly: Assembly, identity: Identity, store: ReleaseStore, proxy: str | None) -> Downloader:
    download, clock = assembly.config.download, assembly.clock
    models = assembly.loaded.config.models
    delivery = assembly.loaded.config.delivery
    budget: Budget = ByteBudget(
        assembly.state.updates / UPDATES_FILE,
        None if delivery is None else delivery.uplink.daily_bytes,
        0.0,
        clock,
        own_bytes=None if download.daily_mb is None else download.daily_mb * _MB,
        beside=assembly.state.uplink / UPLINK_FILE,
    )
    rules = DownloadRules(
        rate_bytes_s=None if download.rate_kb_s is None else download.rate_kb_s * _KB,
        deadline_s=download.deadline,
        metered_bytes=None if download.metered == "use" else 0,
    )
    return Downloader(
        store.places.parts,
        store,
        origin=lambda: Origin(identity.server_url, ssl_context(identity), proxy),
        rules=rules,
        budget=budget,
        metered=lambda: is_metered(download.metered_interfaces, default_route_interface()),
        clock=clock,
        rng=random.SystemRandom(),
        # what the device was set up with may hold the very weights of a release
        shortcuts=[LocalCopies(lambda: [assembly.loaded.resolve(one.package) for one in models.values()])],
    )


__all__ = ["MIB", "Assembly", "assembled", "key_sha256", "parts_of", "rules_of", "slots_of"]
