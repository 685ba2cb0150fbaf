"""Containers: what can be held against the rest of the tree without a container engine. None was ever started."""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet_server.broker import ExternalFiles
from fleet_server.broker.mosquitto import MosquittoFiles, mosquitto_config
from fleet_server.cli.commands import COMMANDS
from fleet_server.paths import ServerPaths
from fleet_server.settings import ServerSettings
from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / "deploy/containers"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
MADE_BY_PEOPLE = {"fleet.env", "fleet.token", "ca.pem", "database-password"}
CONTAINERFILE = (FOLDER / "Containerfile.server").read_text()
INSTRUCTIONS = re.findall(r"^([A-Z]+) (.*)$", CONTAINERFILE.replace("\\\n", " "), re.MULTILINE)

ENVIRONMENT = dict(
    word.split("=", 1) for name, rest in INSTRUCTIONS if name == "ENV" for word in rest.split()
)


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_pinned_bounded_and_hardened(name: str) -> None:
    service = SERVICES[name]
    image = service["image"]
    tag = image.rpartition(":")[2]
    assert re.fullmatch(r"v?\d+\.\d+(\.\d+)?(-[a-z]+)?", tag), image
    user, group = service["user"].split(":")
    assert int(user) > 0
    assert int(group) > 0
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["mem_limit"]
    assert service["pids_limit"]
    assert -1000 < service["oom_score_adj"] < 1000
    assert service["logging"]["options"]["max-size"]
    own = service.get("healthcheck", {}).get("test") or service.get("build")
    assert own or service["healthcheck"] == {"disable": True}, "the image of the server has its own"
    assert not set(service) & {"privileged", "network_mode", "pid", "ipc", "devices", "cap_add"}


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_names_exists(name: str) -> None:
    service = SERVICES[name]
    for volume in service["volumes"]:
        source = volume.split(":")[0]
        if source.startswith("."):
            assert source.removeprefix("./") in MADE_BY_PEOPLE or (FOLDER / source).is_file(), source
            assert volume.endswith(":ro")
        else:
            assert source in COMPOSE["volumes"]
    for other in service.get("depends_on", {}):
        assert SERVICES[other]["healthcheck"]["test"]
    for network in service["networks"]:
        assert network in COMPOSE["networks"]
    for secret in service.get("secrets", []):
        assert secret in COMPOSE["secrets"]
    for entry in service.get("env_file", []):
        assert entry.removeprefix("./") in MADE_BY_PEOPLE


def test_only_what_devices_and_operators_need_is_published() -> None:
    settings = ServerSettings.at(Path("/x"))
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {
        "server": [f"{settings.http.port}:{settings.http.port}"],
        "broker": [f"{settings.broker.port}:{settings.broker.port}"],
        "prometheus": ["127.0.0.1:9090:9090"],
    }
    assert COMPOSE["networks"]["inside"] == {"internal": True}
    assert SERVICES["database"]["networks"] == ["inside"]
    exposed = dict(INSTRUCTIONS)["EXPOSE"].split()
    assert exposed == [str(settings.http.port), str(settings.broker.port)]


def test_the_order_of_who_is_killed_is_that_of_the_units() -> None:
    scores = {name: service["oom_score_adj"] for name, service in SERVICES.items()}
    for name, unit in (("server", "fleet-server"), ("backup", "fleet-backup")):
        text = (REPOSITORY / f"deploy/server/{unit}.service").read_text()
        assert f"OOMScoreAdjust={scores[name]}\n" in text
    assert scores["database"] < scores["broker"] < scores["server"] < scores["prometheus"] < scores["backup"]


def test_the_image_holds_the_server_and_no_root() -> None:
    copied = [word for name, rest in INSTRUCTIONS if name == "COPY" for word in rest.split()[:-1]]
    for word in copied:
        assert word.startswith("--from=") or word == "/opt/fleet-server" or (REPOSITORY / word).exists(), word
    froms = [rest for name, rest in INSTRUCTIONS if name == "FROM"]
    assert all(re.search(r":\d+\.\d+-slim-bookworm", rest) for rest in froms)
    users = [rest for name, rest in INSTRUCTIONS if name == "USER"]
    assert users == [SERVICES["server"]["user"]]
    assert 'ENTRYPOINT ["fleet"]' in CONTAINERFILE
    assert {"serve", "backup"} <= {row.name for row in COMMANDS}
    version = re.search(r'__version__ = "(.*)"', (REPOSITORY / "edge_runtime/__init__.py").read_text())
    assert version is not None
    assert SERVICES["server"]["image"] == SERVICES["backup"]["image"] == f"fleet-server:{version[1]}"
    unit = (REPOSITORY / "deploy/server/fleet-backup.service").read_text()
    assert " ".join(SERVICES["backup"]["command"][:3]) in unit


def test_every_file_of_rules_is_mounted() -> None:
    mounted = " ".join(SERVICES["prometheus"]["volumes"])
    for file in (REPOSITORY / "deploy/prometheus").glob("*.yml"):
        assert f"../prometheus/{file.name}:/etc/prometheus/" in mounted


def test_mosquitto_is_configured_as_the_server_would() -> None:
    written = ExternalFiles(Path("/fleet"))
    wanted = mosquitto_config(
        MosquittoFiles(
            host="0.0.0.0",
            port=8883,
            certificate=written.certificate,
            key=written.key,
            authority=written.authority,
            revoked=written.revoked,
            access=written.access,
            store=Path("/mosquitto/data"),
        )
    )
    assert (FOLDER / "mosquitto.conf").read_text() == wanted
    assert SERVICES["broker"]["user"] == SERVICES["server"]["user"], (
        "its files are readable by that user alone"
    )
    waited = re.search(r'^files="(.*)"$', (FOLDER / "broker.sh").read_text(), re.MULTILINE)
    assert waited is not None
    assert set(waited[1].split()) == {
        str(path)
        for path in (written.authority, written.certificate, written.key, written.access, written.revoked)
    }


def test_the_broker_is_given_its_own_files_and_no_key_of_the_authority() -> None:
    mounts = {name: dict(_mounts(service)) for name, service in SERVICES.items()}
    (shared,) = {source for source in mounts["broker"] if not source.startswith(".")}
    assert [name for name in SERVICES if shared in mounts[name]] == ["server", "broker"]
    written = ENVIRONMENT["FLEET_BROKER_FILES"]
    assert mounts["server"][shared] == written, "the server writes there what the broker reads"
    data = Path(ENVIRONMENT["FLEET_DATA"])
    assert not Path(written).is_relative_to(data.parent)


def test_the_data_directory_lies_in_its_volume() -> None:
    """`fleet init` and a restore make it beside its place, and the rest of the container is read-only."""
    data = Path(ENVIRONMENT["FLEET_DATA"])
    for name in ("server", "backup"):
        assert str(data.parent) in dict(_mounts(SERVICES[name])).values()
    volumes = json.loads(dict(INSTRUCTIONS)["VOLUME"])
    made = next(rest for name, rest in INSTRUCTIONS if name == "RUN" and "useradd" in rest)
    for volume in volumes:
        assert volume in dict(_mounts(SERVICES["server"])).values()
        assert f" {volume}" in made, "a new volume takes the owner of what the image has there"
    assert f"cafile='{ServerPaths(data).ca_certificate}'" in CONTAINERFILE


def _mounts(service: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for volume in service["volumes"]:
        source, target = volume.split(":")[:2]
        yield source, target


def test_the_steps_of_a_restore_name_what_there_is() -> None:
    """docs/deployment.md, against compose.yaml and the program."""
    text = (REPOSITORY / "docs/deployment.md").read_text()
    block = text.partition("### Restore in containers")[2].split("```")[1]
    steps = [shlex.split(line.removeprefix("docker compose ")) for line in block.strip().splitlines()]
    exits = {row.name: row.exits for row in COMMANDS}
    database = SERVICES["database"]["environment"]
    for word, *rest in steps:
        if word == "run":
            service = next(part for part in rest if part in SERVICES)
            command = rest[rest.index(service) + 1 :]
            mounted = [target for _, target in _mounts(SERVICES[service])]
            for path in (part for part in command if part.startswith("/")):
                assert any(Path(path).is_relative_to(target) for target in mounted), path
            assert "--entrypoint" in rest or command[1] in exits[command[0]]
        elif word == "exec":
            assert rest[0] == "database"
            assert rest[3] == database["POSTGRES_USER"]
            assert rest[-1] == database["POSTGRES_DB"]
    order = [step[0] for step in steps]
    assert order.index("stop") < order.index("exec") < order.index("up") == len(order) - 1
    (stopped,) = (step[1:] for step in steps if step[0] == "stop")
    uses = [
        name for name, service in SERVICES.items() if {"fleet-data", "broker-files"} & set(_sources(service))
    ]
    assert set(uses) - {"backup"} <= set(stopped), "nobody else has the old server's data open"
    restore = next(step for step in steps if "restore" in step)
    assert Path(restore[-1]) == Path(ENVIRONMENT["FLEET_DATA"])
    assert any("mv" in step and restore[-1] in step for step in steps[: steps.index(restore)]), (
        "a restore refuses a directory that is not empty"
    )


def _sources(service: dict[str, Any]) -> list[str]:
    return [source for source, _ in _mounts(service)]


@pytest.mark.program("docker-compose")
def test_compose_reads_the_file(tmp_path: Path) -> None:
    """It needs no engine for this."""
    shutil.copytree(REPOSITORY / "deploy", tmp_path / "deploy")
    folder = tmp_path / "deploy/containers"
    for name in MADE_BY_PEOPLE:
        (folder / name).touch()
    command = ["docker-compose", "--file", "compose.yaml", "config", "--quiet"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "FLEET_HOST": "fleet.example"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr


def test_scripts_are_posix() -> None:
    shell = shutil.which("dash") or "/bin/sh"
    for script in (FOLDER / "broker.sh", REPOSITORY / "deploy/install.sh"):
        done = subprocess.run([shell, "-n", str(script)], capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
