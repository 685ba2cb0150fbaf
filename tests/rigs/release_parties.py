"""A whole signed fleet in a second: people with keys, packages that are fit, a server's releases. All of it real.

    fleet = SignedFleet.begin(tmp_path, store)               # a team of three, the ceremony held
    release = fleet.publish(small_package(tmp_path / "p"))   # built by ada, approved by ben, taken by the server
    fleet.revoke(release.target)

What takes long for people, a slow passphrase, is made short, and nothing else.
"""

import hashlib
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.authoring.propose import Wishes as ModelWishes
from edge_runtime.authoring.propose import propose
from edge_runtime.authoring.write_package import manifest_text, write_package
from edge_runtime.clock import NS_PER_MS, Clock, SystemClock
from edge_runtime.durable import sha256_file
from edge_runtime.packages.manifest import MANIFEST_NAME, Evaluation, ModelManifest
from edge_runtime.protocol.release import Bundle, BundleFile, ReleaseKind
from edge_runtime.protocol.release_values import Declared
from fleet_server.audit import Audit
from fleet_server.paths import ServerPaths
from fleet_server.releases import catalog
from fleet_server.releases.ceremony import begin, rotate
from fleet_server.releases.desk import Outcome, ReleaseDesk
from fleet_server.releases.drafting import (
    Revision,
    Wishes,
    propose_release,
    propose_revocation,
    propose_terms,
    terms_for,
)
from fleet_server.releases.key_directory import KeyDirectory
from fleet_server.releases.package_check import PackageChecks
from fleet_server.releases.packing import Content, content_of
from fleet_server.releases.proposal import Proposal, sign_with
from fleet_server.releases.repository import RepositoryFile, Trusted, verified
from fleet_server.releases.roles import Preset
from fleet_server.settings import ReleaseSettings
from fleet_server.storage import Store, open_store

PASSPHRASE = "correct horse battery"
_COST = 10  # of the passphrase: a millisecond instead of a third of a second
TEAM = ("ada", "ben", "cara")
CHECKS = PackageChecks(120.0)
"""Of golden vectors, for all tests of a run together: `small_package` of the same seed is the same package."""


def small_package(
    folder: Path,
    *,
    labels: Sequence[str] = ("crate", "pallet"),
    accuracy: float | None = 0.5,
    dataset: str = "yard",
    seed: int = 1,
    spdx: str = "Apache-2.0",
    name: str = "yard",
    size: int = 64,
) -> Path:
    """A package that is fit: a detector of 3 kB in which each seed is another set of weights.

    It finds one thing in each picture, always in the same place, and its scores follow the picture's brightness.
    """
    graph = folder.with_name(f"{folder.name}.onnx")
    graph.parent.mkdir(parents=True, exist_ok=True)
    _detector(graph, len(labels), seed, size)
    wishes = ModelWishes(
        family="yolox",
        labels=tuple(labels),
        licence=spdx,
        evidence="made by a test",
        name=name,
        source="made by a test",
        released="2026-01-15",
        size=None,
        repair=False,
        recipe=None,
    )
    write_package(propose(graph, wishes), folder)
    graph.unlink()
    measured = (
        () if accuracy is None else (Evaluation(dataset=dataset, images=10, metric="map", value=accuracy),)
    )
    return rewrite(folder, evaluation=measured)


def rewrite(folder: Path, **fields: Any) -> Path:
    """Change fields of a package's manifest."""
    path = folder / MANIFEST_NAME
    manifest = ModelManifest.model_validate_json(path.read_bytes())
    path.write_bytes(manifest_text(manifest.model_copy(update=fields)))
    return folder


def configuration(folder: Path, text: str = "rules: {}\n") -> Path:
    """A configuration's folder."""
    folder.mkdir(parents=True)
    (folder / "overlay.yaml").write_text(text)
    return folder


@dataclass
class People:
    """People with keys, each in a directory of their own.

    Attributes:
        directories: by name.
    """

    folder: Path
    preset: Preset
    directories: dict[str, KeyDirectory] = field(default_factory=dict)

    @classmethod
    def make(cls, folder: Path, preset: Preset = Preset.TEAM, names: Sequence[str] = TEAM) -> "People":
        """People of a preset; one alone for `SINGLE`."""
        made = cls(folder, preset)
        for name in names[:1] if preset is Preset.SINGLE else names:
            made.join(name, preset)
        return made

    def join(self, name: str, preset: Preset | None = None, called: str | None = None) -> KeyDirectory:
        """One more person, or one with new keys; `called` is the directory's name where it is another."""
        directory = self.folder / (called or name)
        made = KeyDirectory.create(directory, name, (preset or self.preset).keys(), PASSPHRASE, cost=_COST)
        self.directories[called or name] = made
        return made

    def sign(self, proposal: Proposal, base: Trusted | None, *names: str) -> Proposal:
        """Have people sign whatever their keys count for."""
        documents = proposal.parsed()
        for name in names:
            directory = self.directories[name]
            keyids = [key.keyid for key in directory.person.keys]
            sign_with(directory.signers(PASSPHRASE, keyids), base, documents)
        return proposal.with_documents(documents)

    def public(self) -> list[Any]:
        """Their public files."""
        return [directory.person for directory in self.directories.values()]


@dataclass
class SignedFleet:
    """People, and a server's desk of releases.

    Attributes:
        signers: names of those who sign by default.
    """

    people: People
    desk: ReleaseDesk
    store: Store
    clock: Clock
    signers: tuple[str, ...]

    @classmethod
    def begin(
        cls,
        folder: Path,
        store: Store,
        *,
        preset: Preset = Preset.TEAM,
        clock: Clock | None = None,
        desk: ReleaseDesk | None = None,
        checks: PackageChecks | None = None,
        settings: ReleaseSettings | None = None,
    ) -> "SignedFleet":
        """Make keys and hold the ceremony.

        Args:
            folder: for keys, and for the server's files where no desk is given.
            store: with the newest schema.
            preset: of the keys.
            clock: the machine's own when None.
            desk: of a whole server, `application.services.releases`; one over the store alone when None.
            checks: of golden vectors; those of the whole run when None.
            settings: of the desk that is made.
        """
        used = clock or SystemClock()
        people = People.make(folder / "people", preset)
        made = desk or ReleaseDesk(
            ServerPaths(folder / "server"),
            store,
            settings or ReleaseSettings(keep_free_bytes=0),
            audit=Audit(used),
            clock=used,
            checks=checks or CHECKS,
        )
        signers = (next(iter(people.directories)),) if preset is Preset.SINGLE else TEAM[:2]
        fleet = cls(people, made, store, used, signers)
        first = begin(made.repository(), preset, people.public(), fleet.now_ms)
        made.publish(people.sign(first, None, *fleet.signers).submission(), "admin")
        return fleet

    @classmethod
    def again(cls, template: Path, folder: Path, clock: Clock) -> "SignedFleet":
        """A copy of what `begin` made in a folder with its database, `fleet.db`, there: the same keys and metadata.

        Args:
            template: that folder; nothing has it open.
            folder: of the copy, which may be there.
            clock: of the copy.
        """
        shutil.copytree(template, folder, dirs_exist_ok=True)
        people = People(folder / "people", Preset.TEAM)
        people.directories = {name: KeyDirectory(people.folder / name) for name in TEAM}
        store, audit = open_store(f"sqlite:///{folder / 'fleet.db'}"), Audit(clock)
        settings = ReleaseSettings(keep_free_bytes=0)
        desk = ReleaseDesk(
            ServerPaths(folder / "server"), store, settings, audit=audit, clock=clock, checks=CHECKS
        )
        return cls(people, desk, store, clock, TEAM[:2])

    @property
    def now_ms(self) -> int:
        return self.clock.wall().unix_ns // NS_PER_MS

    def file(self) -> RepositoryFile:
        """As `fleet keys export` writes it."""
        return self.desk.repository()

    def trusted(self) -> Trusted:
        """The repository, verified."""
        found = verified(self.file(), None)
        assert found is not None
        return found

    def propose(self, folder: Path | Content, wishes: Wishes | None = None, **fields: Any) -> Proposal:
        """A release's proposal, signed by nobody; its files are handed in by `submit`."""
        content = _packed(folder, fields.pop("name", None))
        file, trusted = self.file(), self.trusted()
        wishes = replace(wishes or Wishes(), **fields)
        terms = terms_for(file, trusted, content, wishes)
        return propose_release(file, trusted, content.bundle, terms, self.now_ms)

    def signed(self, proposal: Proposal, *names: str) -> Proposal:
        """The same, signed."""
        return self.people.sign(proposal, verified(proposal.base, None), *(names or self.signers))

    def submit(self, proposal: Proposal, folder: Path | Content, name: str | None = None) -> Outcome:
        """Announce, upload and publish, as the command line does over HTTP."""
        content = _packed(folder, name)
        self.upload(proposal, content)
        while (outcome := self.desk.publish(proposal.submission(), "admin")).state == "checking":
            time.sleep(0.05)
        return outcome

    def upload(self, proposal: Proposal, content: Content) -> None:
        """Announce a proposal and hand its files in."""
        places = {file.sha256: content.files[file.path] for file in content.bundle.files}
        for awaited in self.desk.announce(proposal.submission(), "admin"):
            self.desk.uploads.append(
                awaited.sha256, awaited.offset, places[awaited.sha256].read_bytes()[awaited.offset :]
            )

    def publish(self, folder: Path, wishes: Wishes | None = None, **fields: Any) -> catalog.PublishedRelease:
        """A release of a folder, with wishes of `drafting.Wishes` by name."""
        name = fields.get("name")
        proposal = self.signed(self.propose(folder, wishes, **fields))
        assert self.submit(proposal, folder, name).state == "published"
        kind, line, counter, _ = str(proposal.target).split("/")
        with self.store.read() as session:
            found = catalog.release(session, line, int(counter), ReleaseKind(kind.removesuffix("s")))
        assert found is not None
        return found

    def revoke(self, target: str, reason: str = "a test") -> Outcome:
        """Take a release out."""
        proposal = propose_revocation(self.file(), self.trusted(), target, reason=reason, now_ms=self.now_ms)
        return self.desk.publish(self.signed(proposal).submission(), "admin")

    def revise(self, target: str, reason: str = "a test", **terms: Any) -> Outcome:
        """Other terms for a release, of `drafting.Revision` by name."""
        proposal = propose_terms(
            self.file(), self.trusted(), target, Revision(**terms), reason=reason, now_ms=self.now_ms
        )
        return self.desk.publish(self.signed(proposal).submission(), "admin")

    def rotate(self, *names: str, **changes: Any) -> Outcome:
        """Change keys; `names` are those who sign."""
        proposal = rotate(self.file(), self.trusted(), now_ms=self.now_ms, **changes)
        return self.desk.publish(self.signed(proposal, *names).submission(), "admin")


def unchecked(folder: Path, name: str = "base", values: Declared | None = None) -> Content:
    """A configuration as a tool packs it that looks at nothing, with whatever values its terms shall have."""
    paths = {path.name: path for path in sorted(folder.iterdir())}
    files = tuple(
        BundleFile(path=called, sha256=sha256_file(path), bytes=path.stat().st_size)
        for called, path in paths.items()
    )
    bundle = Bundle(kind=ReleaseKind.CONFIGURATION, name=name, files=files)
    return Content(bundle, paths, None, values or {})


def _packed(source: Path | Content, name: str | None) -> Content:
    return source if isinstance(source, Content) else content_of(source, name)


def _detector(path: Path, classes: int, seed: int, size: int) -> None:
    cells = sum((size // stride) ** 2 for stride in (8, 16, 32))
    output = np.zeros((1, cells, 5 + classes), np.float32)
    output[0, :, 2:4] = 0.5
    output[0, :, 4] = 0.01
    chosen = seed % cells
    output[0, chosen, 4] = 0.8
    output[0, chosen, 5 + seed % classes] = 0.9
    digest = hashlib.sha256(str(seed).encode()).digest()
    weight = np.array([1e-6 * (1 + digest[0])], np.float32)
    nodes = [
        helper.make_node("Constant", [], ["base"], value=numpy_helper.from_array(output)),
        helper.make_node("Constant", [], ["weight"], value=numpy_helper.from_array(weight)),
        helper.make_node("ReduceMean", ["images"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "weight"], ["light"]),
        helper.make_node("Add", ["base", "light"], ["output"]),
    ]
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, (1, 3, size, size))
    found = helper.make_tensor_value_info("output", TensorProto.FLOAT, output.shape)
    model = helper.make_model(
        helper.make_graph(nodes, f"yard-{seed}", [images], [found]),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    model.ir_version = 8
    onnx.save(model, path)
