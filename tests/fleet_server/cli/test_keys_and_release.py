"""`fleet keys` and `fleet release` from the first key to a revoked release, as people type them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.clock import NS_PER_MS, SystemClock
from edge_runtime.updates.trust.bootstrap import check_root
from fleet_server.cli.main import SERVER_MODULES, run
from fleet_server.releases.key_directory import KeyDirectory
from tests.rigs.deliveries import FakeClock
from tests.rigs.fleet_api import FleetApi, fleet_api
from tests.rigs.release_parties import SignedFleet, configuration, small_package

PASSPHRASE = "correct horse battery"


@dataclass
class Desk:
    """A person at a command line, with a folder of files that travel."""

    folder: Path
    api: FleetApi
    capsys: pytest.CaptureFixture[str]
    out: str = ""
    err: str = ""

    def __call__(self, *arguments: Any) -> int:
        code = run([str(argument) for argument in arguments])
        self.out, self.err = self.capsys.readouterr()
        assert "Traceback" not in self.err
        assert PASSPHRASE not in self.out + self.err
        return code

    def ok(self, *arguments: Any) -> str:
        assert self(*arguments) == 0, self.err
        return self.out

    def refused(self, code: int, sentence: str, *arguments: Any) -> None:
        """One line on stderr, the code, and nothing on stdout."""
        assert self(*arguments) == code, (self.out, self.err)
        assert sentence in self.err.splitlines()[-1]
        assert self.err.splitlines()[-1].startswith("error: ")

    def file(self, name: str) -> Path:
        return self.folder / name

    def keys(self, *names: str) -> list[str | Path]:
        found: list[str | Path] = []
        for name in names:
            found += ["--keys", self.file(name), "--passphrase-file", self.file("passphrase")]
        return found

    def export(self) -> Path:
        self.ok("keys", "export", "--out", self.file("fleet.repository"))
        return self.file("fleet.repository")

    def pack(self, package: Path, *more: Any) -> Path:
        self.ok("release", "pack", package, "--out", self.file("yard.release"), *more)
        return self.file("yard.release")

    def sign(self, name: str, release: Path, *more: Any, out: str = "yard.proposal") -> Path:
        repository = self.file("fleet.repository")
        self.ok(
            "release",
            "sign",
            release,
            "--repository",
            repository,
            *self.keys(name),
            "--out",
            self.file(out),
            *more,
        )
        return self.file(out)


@pytest.fixture
def desk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Desk]:
    for name in [name for name in os.environ if name.startswith("FLEET_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(KeyDirectory.create.__func__, "__defaults__", (10,))  # type: ignore[attr-defined]
    clock = FakeClock()
    clock.wall_ms = SystemClock().wall().unix_ns // NS_PER_MS
    for api in fleet_api(tmp_path, f"sqlite:///{tmp_path / 'fleet.db'}", clock=clock):
        monkeypatch.setenv("FLEET_DATA", str(api.directory))
        files = tmp_path / "files"
        files.mkdir()
        (files / "passphrase").write_text(PASSPHRASE + "\n")
        yield Desk(files, api, capsys)


@pytest.fixture
def team(desk: Desk) -> Desk:
    """The ceremony was held: ada and ben have signed it and know its root, cara has not."""
    services = desk.api.application.services
    fleet = SignedFleet.begin(desk.folder, services.store, clock=services.clock, desk=services.releases)
    for name, directory in fleet.people.directories.items():
        directory.directory.rename(desk.file(name))
    for name in ("ada", "ben"):
        KeyDirectory(desk.file(name)).trust(fleet.file().roots[0].encode())
    desk.file("fleet.repository").write_text(fleet.file().model_dump_json())
    return desk


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package that is fit."""
    return small_package(tmp_path_factory.mktemp("package") / "yard")


def test_the_ceremony_of_three_people(desk: Desk) -> None:
    secret = ["--passphrase-file", desk.file("passphrase")]
    repository = desk.export()
    assert "no keys of people yet" in desk.err
    desk.refused(2, "has no root yet", "keys", "export", "--root", desk.file("root.json"))
    for name in ("ada", "ben", "cara"):
        desk.ok("keys", "init", desk.file(name), "--holder", name, *secret)
    first = desk.file("first.proposal")
    people: list[str | Path] = []
    for name in ("ada", "ben", "cara"):
        people += ["--person", desk.file(name) / f"{name}.public.json"]
    desk.ok("keys", "begin", repository, *people, "--out", first)
    assert "signatures missing: 2 on root" in desk.err
    desk.ok("keys", "sign", first, *desk.keys("ada"))
    desk.refused(1, "needs 2 signatures and has 1 (ada)", "release", "publish", first)
    desk.ok("keys", "sign", first, *desk.keys("ben"))
    assert f"signed by enough people: fleet release publish {first}" in desk.err
    desk.refused(1, "has signed already", "keys", "sign", first, *desk.keys("ben"))
    desk.ok("release", "publish", first)
    shown = desk.ok("keys", "inspect", desk.export())
    assert "preset      team" in shown
    root = desk.file("root.json")
    assert desk.ok("keys", "export", "--root", root) == "", "nothing but the root was asked for"
    given = check_root(root.read_bytes())
    assert f"root        1, fingerprint {given.fingerprint[:32]}" in shown
    assert f"root 1, fingerprint {given.fingerprint[:32]}" in desk.err


@pytest.mark.timeout(300)  # the golden vectors run behind everything else
def test_a_release_by_two_people(team: Desk, package: Path) -> None:
    release = team.pack(package)
    proposal = team.sign("ada", release, "--open", "2%@2026-12-01T08:00Z", "--open", "100%@2027-01-01T00:00Z")
    assert "open        2 % from 2026-12-01 08:00:00 UTC" in team.err
    assert "one signature is missing" in team.err
    team.refused(1, "needs 2 signatures", "release", "publish", proposal, "--release", release)
    team.refused(1, "somebody else approves it", "release", "approve", proposal, *team.keys("ada"))
    before = proposal.read_bytes()
    team.refused(2, "have not seen this fleet's keys", "release", "approve", proposal, *team.keys("cara"))
    team.refused(
        2,
        "no root here has that fingerprint",
        "release",
        "approve",
        proposal,
        *team.keys("cara"),
        "--root",
        "0" * 64,
    )
    assert proposal.read_bytes() == before
    shown = json.loads(team.ok("keys", "inspect", team.file("fleet.repository"), "--json"))
    root = ["--root", shown["fingerprint"][:16]]
    team.ok("release", "approve", proposal, *team.keys("cara"), *root, "--release", package)
    team.refused(2, "give them with --release", "release", "publish", proposal)
    team.ok("release", "publish", proposal, "--release", release)
    assert "the server runs the golden vectors" in team.err
    assert "published: models/yard/1/bundle.json" in team.err
    team.ok("release", "publish", proposal)
    assert "published already" in team.err
    (listed,) = json.loads(team.ok("release", "list", "--json"))
    assert listed["terms"]["openings"][0]["basis_points"] == 200
    assert "licence Apache-2.0" in team.ok("release", "show", "yard", "1")
    team.refused(3, "there is no release", "release", "show", "yard", "2")
    assert team("release", "show", "yard", "latest") == 2, "R000-31: there is no latest"


def test_a_release_is_taken_back_by_two_people(team: Desk) -> None:
    release = team.pack(configuration(team.file("overlay")), "--name", "base")
    proposal = team.sign("ada", release)
    team.ok("release", "approve", proposal, *team.keys("ben"))
    team.ok("release", "publish", proposal, "--release", release)
    revocation = team.file("revocation")
    repository = team.export()
    common = [
        "--repository",
        repository,
        "--out",
        revocation,
        "--reason",
        "it sees ghosts",
        "--kind",
        "configuration",
    ]
    team.refused(2, "there is no release", "release", "revoke", "base", "9", *common, *team.keys("ada"))
    team.ok("release", "revoke", "base", "1", *common, *team.keys("ada"))
    assert "taken out   configurations/base/1/bundle.json: it sees ghosts" in team.err
    team.ok("release", "approve", revocation, *team.keys("ben"))
    team.ok("release", "publish", revocation)
    assert "revoked: configurations/base/1/bundle.json" in team.err
    assert "REVOKED" in team.ok("release", "show", "base", "1", "--kind", "configuration")
    assert team("health") in (0, 1)


def test_other_terms_for_a_release_that_is_out(team: Desk, tmp_path: Path) -> None:
    release = team.pack(configuration(team.file("overlay")), "--name", "base")
    proposal = team.sign("ada", release, "--open", "2%")
    team.ok("release", "approve", proposal, *team.keys("ben"))
    team.ok("release", "publish", proposal, "--release", release)
    revised = team.file("wider.proposal")
    common = [
        "--repository",
        team.export(),
        "--out",
        revised,
        "--kind",
        "configuration",
        "--reason",
        "all is well",
    ]
    team.refused(2, "would stay as they are", "release", "terms", "base", "1", *common, *team.keys("ada"))
    terms = team.file("terms.yaml")
    terms.write_text("probation: {seconds: 60}\n")
    team.ok(
        *("release", "terms", "base", "1", "--open", "2%", "--open", "100%", "--hardware", "orin"),
        *("--terms", terms, *common, *team.keys("ada")),
    )
    assert "new terms   configurations/base/1/bundle.json, revision 2: all is well" in team.err
    assert "was         openings: [{'basis_points': 200" in team.err
    team.refused(1, "signatures", "release", "publish", revised)
    team.ok("release", "approve", revised, *team.keys("ben"))
    team.ok("release", "publish", revised)
    assert "new terms published: configurations/base/1/bundle.json" in team.err
    team.ok("release", "publish", revised)
    assert "new terms published already" in team.err
    shown = json.loads(team.ok("release", "show", "base", "1", "--kind", "configuration", "--json"))["terms"]
    assert [one["basis_points"] for one in shown["openings"]] == [200, 10_000]
    assert (shown["revision"], shown["probation"]["seconds"]) == (2, 60)
    assert (shown["fit"]["hardware"], shown["shadow"]["seconds"]) == (["orin"], 60)


def test_two_proposals_at_a_time(team: Desk) -> None:
    release = team.pack(configuration(team.file("overlay")), "--name", "base")
    first = team.sign("ada", release, "--counter", "1", out="first.release.proposal")
    second = team.sign("ben", release, "--counter", "2", out="second.release.proposal")
    team.ok("release", "approve", first, *team.keys("ben"))
    team.ok("release", "approve", second, *team.keys("ada"))
    team.ok("release", "publish", first, "--release", release)
    team.refused(
        1,
        "this was made on version 1 of configurations, and version 2 has been published since: export the "
        "repository again and sign it anew",
        "release",
        "publish",
        second,
        "--release",
        release,
    )


def test_one_person_alone(desk: Desk) -> None:
    secret = ["--passphrase-file", desk.file("passphrase")]
    begin = ["--preset", "single", "--repository", desk.export()]
    desk.ok("keys", "init", desk.file("eva"), "--holder", "eva", *begin, *secret)
    desk.ok("release", "publish", desk.file("eva") / "first.proposal")
    desk.export()
    release = desk.pack(configuration(desk.file("overlay")), "--name", "base")
    proposal = desk.sign("eva", release)
    desk.ok("release", "approve", proposal, *desk.keys("eva"))
    desk.refused(1, "has signed this already", "release", "approve", proposal, *desk.keys("eva"))
    desk.ok("release", "publish", proposal, "--release", release)
    assert "preset      single" in desk.ok("keys", "inspect", desk.export())


def test_keys_are_rotated_and_renewed(team: Desk) -> None:
    secret = ["--passphrase-file", team.file("passphrase")]
    team.ok("keys", "init", team.file("dan"), "--holder", "dan", *secret)
    rotation, repository = team.file("rotation"), team.file("fleet.repository")
    change = ["--person", team.file("dan") / "dan.public.json", "--without", "cara"]
    team.refused(
        2,
        "zoe holds no key",
        "keys",
        "rotate",
        repository,
        "--without",
        "zoe",
        "--keys",
        team.file("ada"),
        "--out",
        rotation,
    )
    team.ok("keys", "rotate", repository, *change, "--keys", team.file("ada"), "--out", rotation)
    for name in ("ada", "ben"):
        team.ok("keys", "sign", rotation, *team.keys(name))
    team.refused(2, "fleet keys sign", "release", "approve", rotation, *team.keys("ada"))
    team.ok("release", "publish", rotation)
    assert "root 2" in team.err
    team.ok("keys", "online", "director", "timestamp", "--out", team.file("fresh.repository"))
    online = team.file("online")
    team.ok(
        "keys",
        "rotate",
        team.file("fresh.repository"),
        "--online",
        "--keys",
        team.file("ben"),
        "--out",
        online,
    )
    for name in ("ada", "ben"):
        team.ok("keys", "sign", online, *team.keys(name))
    team.ok("release", "publish", online)
    renewal = team.file("renewal")
    team.ok("keys", "renew", team.export(), "--role", "models", "--keys", team.file("ada"), "--out", renewal)
    assert "missing     2 signatures on models" in team.ok("keys", "inspect", renewal)
    for name in ("ada", "ben"):
        team.ok("keys", "sign", renewal, *team.keys(name))
    team.ok("release", "publish", renewal)
    team.ok("release", "recover", "--snapshot", "40", "--timestamp", "80")
    assert "snapshot 41 and timestamp 81" in team.err
    acts = [entry["action"] for entry in json.loads(team.ok("audit", "list", "--json"))]
    assert acts == [
        "release.recover",
        "keys.publish",
        "keys.publish",
        "keys.online",
        "keys.publish",
        "keys.publish",
    ]


def test_keys_for_the_safe_lie_apart(desk: Desk) -> None:
    secret, people = ["--passphrase-file", desk.file("passphrase")], []
    for name in ("ada", "ben", "cara"):
        for place, duties in (("safe", ("root", "targets")), ("day", ("release",))):
            options = [word for duty in duties for word in ("--duty", duty)]
            desk.ok("keys", "init", desk.file(f"{name}-{place}"), "--holder", name, *options, *secret)
            people += ["--person", desk.file(f"{name}-{place}") / f"{name}.public.json"]
    first = desk.file("first.proposal")
    fewer = [*people[:2], *people[4:6], *people[8:10], "--preset", "offline", "--out", first]
    desk.refused(2, "needs 2 people with a key for release", "keys", "begin", desk.export(), *fewer)
    desk.ok("keys", "begin", desk.export(), *people, "--preset", "offline", "--out", first)
    for name in ("ada-safe", "ben-safe"):
        desk.ok("keys", "sign", first, *desk.keys(name))
    assert "signatures missing: 2 on models, 2 on configurations" in desk.err
    for name in ("ada-day", "cara-day"):
        desk.ok("keys", "sign", first, *desk.keys(name))
    desk.ok("release", "publish", first)
    desk.export()
    release = desk.pack(configuration(desk.file("overlay")), "--name", "base")
    known = ["--repository", desk.file("fleet.repository"), "--out", desk.file("x")]
    wrong = [*known, *desk.keys("ada-safe")]
    desk.refused(1, "no key here may sign configurations", "release", "sign", release, *wrong)
    proposal = desk.sign("ada-day", release)
    desk.ok("release", "approve", proposal, *desk.keys("cara-day"))
    desk.ok("release", "publish", proposal, "--release", release)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["keys", "init", "k", "--holder", "Ada Lovelace", "--passphrase-file", "passphrase"], 2, "--holder"),
        (["keys", "init", "k", "--holder", "ada", "--passphrase-file", "short"], 2, "at least 12 characters"),
        (["keys", "init", "k", "--holder", "ada", "--passphrase-file", "absent"], 2, "No such file"),
        (["keys", "init", "k", "--holder", "ada"], 2, "nobody is there to type the passphrase"),
        (
            ["keys", "init", "k", "--holder", "ada", "--preset", "duo"],
            2,
            "--preset is single, team or offline",
        ),
        (["keys", "init", "k", "--holder", "ada", "--duty", "king"], 2, "--duty is root, targets or release"),
        (["keys", "sign", "passphrase", "--keys", "k"], 2, "no directory of keys"),
        (["keys", "begin", "passphrase", "--out", "x"], 2, "is no repository file"),
        (["keys", "inspect", "passphrase"], 2, "is no proposal"),
        (["release", "inspect", "passphrase"], 2, "is no release"),
        (["release", "pack", ".", "--out", "x"], 2, "neither a model package"),
        (["release", "publish", "passphrase"], 2, "is no proposal"),
        (
            [
                "release",
                "revoke",
                "a",
                "1",
                "--kind",
                "x",
                "--repository",
                "r",
                "--keys",
                "k",
                "--out",
                "o",
                "--reason",
                "r",
            ],
            2,
            "",
        ),
    ],
    ids=lambda value: "-".join(value[:3]) if isinstance(value, list) else None,
)
def test_what_cannot_be_used_is_one_sentence(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, sentence: str
) -> None:
    monkeypatch.chdir(desk.folder)
    desk.file("short").write_text("short\n")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    desk.refused(code, sentence, *arguments)
    assert not desk.file("k").exists() or not any(desk.file("k").iterdir())


@pytest.mark.parametrize(
    ("openings", "sentence"),
    [
        (["0%"], "a share and a time"),
        (["101%"], "a share and a time"),
        (["half"], "a share and a time"),
        (["2%@soon"], "--open"),
        (["10%", "2%"], "each opening is larger"),
        (["2%@2027-01-01", "10%@2026-01-01"], "not sooner"),
    ],
)
def test_openings_that_cannot_be_meant(openings: list[str], sentence: str) -> None:
    from edge_runtime.errors import ConfigError
    from fleet_server.cli.terms_words import openings_of

    with pytest.raises(ConfigError, match=sentence):
        openings_of(openings, SystemClock())


def test_a_file_of_terms(tmp_path: Path) -> None:
    from edge_runtime.errors import ConfigError
    from fleet_server.cli.terms_words import openings_of, read_terms

    path = tmp_path / "terms.yaml"
    path.write_text(
        "fit: {hardware: [orin], l4t: {at_least: '36.4'}}\nprobation: {seconds: 60}\ntrackers: continue\n"
    )
    terms = read_terms(path)
    assert (terms.fit.hardware, terms.probation.seconds, terms.trackers.value) == (("orin",), 60, "continue")
    for text, sentence in (
        ("fit: {gpu: 1}\n", "fit.gpu"),
        ("- a\n", "--terms"),
        ("a: [\n", "line 1: a value is missing or a bracket has nothing before it"),
        ("fit: {}\nfit: {}\n", "line 2: fit: is given twice"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=sentence):
            read_terms(path)
    assert [one.basis_points for one in openings_of(["0.01%", "2.5%", "100%"], SystemClock())] == [
        1,
        250,
        10_000,
    ]


def test_what_the_server_would_refuse_is_told_before_it_is_signed(team: Desk, tmp_path: Path) -> None:
    release = team.pack(small_package(tmp_path / "unmeasured", accuracy=None))
    wanted = ["--repository", team.file("fleet.repository"), "--out", team.file("x"), *team.keys("ada")]
    team.refused(1, "was never evaluated", "release", "sign", release, *wanted)
    assert not team.file("x").exists()


def test_people_need_nothing_of_the_server(team: Desk, package: Path, tmp_path: Path) -> None:
    """A laptop without the extra `server`: everything that is signed there is made there."""
    release, repository = team.pack(package), team.file("fleet.repository")
    blocker = tmp_path / "without" / "sitecustomize.py"
    blocker.parent.mkdir()
    blocker.write_text(_BLOCKER.format(names=SERVER_MODULES))
    shutil.copytree(package, tmp_path / "package")

    def offline(*arguments: Any) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "fleet_server.cli.main", *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": f"{blocker.parent}:{Path.cwd()}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    offline("release", "pack", tmp_path / "package", "--out", tmp_path / "again.release")
    assert (tmp_path / "again.release").read_bytes() == release.read_bytes()
    proposal = tmp_path / "x.proposal"
    offline("release", "sign", release, "--repository", repository, *team.keys("ada"), "--out", proposal)
    offline("release", "approve", proposal, *team.keys("ben"))
    found = json.loads(offline("release", "inspect", proposal, "--json"))
    assert (found["target"], found["missing"]) == ("models/yard/1/bundle.json", {})


_BLOCKER = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
"""


def test_the_passphrase_is_asked_for_twice_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import typer

    from fleet_server.cli.passphrase import passphrase_of

    asked: list[Any] = []

    def prompt(_text: str, **options: Any) -> str:
        asked.append(options)
        return PASSPHRASE

    monkeypatch.setattr(typer, "prompt", prompt)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    assert passphrase_of(None, new=True) == PASSPHRASE
    assert passphrase_of(None) == PASSPHRASE
    assert [(one["hide_input"], one["confirmation_prompt"]) for one in asked] == [(True, True), (True, False)]
