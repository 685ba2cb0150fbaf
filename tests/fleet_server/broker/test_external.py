"""An external mosquitto, told by files and a reload: what it obeys at once, and what it cannot."""

import os
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_runtime.errors import ConfigError
from fleet_server.authority import RevokedCertificate, ensure_server_certificate
from fleet_server.broker.broker import BrokerError, BrokerState
from fleet_server.broker.external import REWRITE_S, ExternalBroker, ExternalFiles
from fleet_server.serve.parts import broker_of
from fleet_server.settings import ServerSettings
from tests.rigs.brokers import MosquittoBroker, Recorder, accepts, wait_until
from tests.rigs.pki import Credentials
from tests.rigs.site import Site, user_of


class OursByFiles(MosquittoBroker):
    """mosquitto that reads what `ExternalBroker` wrote."""

    def use(self, site: Site, files: ExternalFiles) -> None:
        self._site, self._files = site, files
        self.parties["fleet-ingest"] = site.ingest_credentials

    def _write_files(self) -> None:
        super()._write_files()
        text = (self.directory / "mosquitto.conf").read_text()
        for line in (
            f"cafile {self._files.authority}",
            f"certfile {self._files.certificate}",
            f"keyfile {self._files.key}",
            f"crlfile {self._files.revoked}",
            f"acl_file {self._files.access}",
        ):
            name = line.split()[0]
            text = "\n".join(line if old.split()[:1] == [name] else old for old in text.splitlines())
        (self.directory / "mosquitto.conf").write_text(text + "\n")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "site")


@pytest.fixture
def files(site: Site) -> ExternalFiles:
    return ExternalFiles(site.root / "external")


@pytest.fixture
def mosquitto(tmp_path: Path, site: Site, files: ExternalFiles) -> Iterator[OursByFiles]:
    broker = OursByFiles(tmp_path / "mosquitto", [])
    broker.use(site, files)
    yield broker
    broker.stop()


def connect(broker: MosquittoBroker, party: Credentials) -> Recorder:
    recorder = Recorder(broker.client(party, f"{party.name}-{party.serial[:6]}"))
    recorder.client.reconnect_delay_set(30, 30)
    recorder.client.connect(broker.host, broker.port, 20)
    recorder.client.loop_start()
    wait_until(lambda: recorder.accepted is not None or bool(recorder.reasons))
    return recorder


def test_a_revocation_silences_at_once_and_keeps_out(
    site: Site, files: ExternalFiles, mosquitto: OursByFiles
) -> None:
    one, two = site.device("dev-1"), site.device("dev-2")
    everybody = {site.ingest_user, user_of(one), user_of(two)}
    external = ExternalBroker(files, site.server, site.authority, site.clock)
    external.start(everybody, [])
    mosquitto.start()
    server, first, second = (connect(mosquitto, who) for who in (site.ingest_credentials, one, two))
    assert server.subscribe("fleet/v1/+/up/#")
    assert first.subscribe("fleet/v1/dev-1/down/#")
    assert second.subscribe("fleet/v1/dev-2/down/#")

    external = ExternalBroker(
        files,
        site.server,
        site.authority,
        site.clock,
        reload=[sys.executable, "-c", f"import os; os.kill({mosquitto.pid}, {int(signal.SIGHUP)})"],
    )
    external.apply(everybody - {user_of(one)}, [RevokedCertificate(one.serial, 1_700_000_000_000)])
    # the same thread of mosquitto reads the files and then whatever comes: nothing of dev-1 gets through after it
    assert wait_until(lambda: b"Reloading config" in mosquitto.log.read_bytes())
    first.publish("fleet/v1/dev-1/up/health", b"after", timeout=1)
    server.publish("fleet/v1/dev-1/down/cmd", b"for the thief")
    server.publish("fleet/v1/dev-2/down/cmd", b"for dev-2")
    second.publish("fleet/v1/dev-2/up/health", b"fine")
    assert wait_until(lambda: [payload for _, payload in server.messages] == [b"fine"])
    assert wait_until(lambda: [payload for _, payload in second.messages] == [b"for dev-2"])
    assert first.messages == []
    assert first.client.is_connected(), "mosquitto learnt to cut: say so in docs/enrolment.md"
    assert not accepts(mosquitto.port, one)
    for recorder in (server, first, second):
        recorder.close()


def test_a_superseded_certificate_is_out_by_the_list_but_an_open_connection_goes_on(
    site: Site, files: ExternalFiles, mosquitto: OursByFiles
) -> None:
    """The user is the common name alone, so mosquitto cannot tell the old connection from the new one."""
    old, new = site.device("dev-1"), site.device("dev-1")
    external = ExternalBroker(files, site.server, site.authority, site.clock)
    external.start({site.ingest_user, user_of(old)}, [])
    mosquitto.start()
    open_one, server = connect(mosquitto, old), connect(mosquitto, site.ingest_credentials)
    assert server.subscribe("fleet/v1/+/up/#")
    out = RevokedCertificate(old.serial, 1_700_000_000_000, superseded=True)
    external.apply({site.ingest_user, user_of(new)}, [out])
    os.kill(mosquitto.pid, signal.SIGHUP)
    assert wait_until(lambda: b"Reloading config" in mosquitto.log.read_bytes())
    assert not accepts(mosquitto.port, old)
    assert accepts(mosquitto.port, new)
    open_one.publish("fleet/v1/dev-1/up/health", b"under the old certificate")
    assert wait_until(lambda: bool(server.messages)), "mosquitto learnt to tell: say so in docs/enrolment.md"
    for recorder in (open_one, server):
        recorder.close()


def test_files_are_written_when_something_changed_or_the_list_is_old(
    site: Site, files: ExternalFiles
) -> None:
    one = site.device("dev-1")
    marks = site.root / "reloads"
    command = [sys.executable, "-c", f"open({str(marks)!r}, 'a').write('x')"]
    external = ExternalBroker(files, site.server, site.authority, site.clock, reload=command)
    external.start({site.ingest_user}, [])
    external.apply({site.ingest_user}, [])
    assert marks.read_text() == "x"
    external.apply({site.ingest_user, user_of(one)}, [])
    assert marks.read_text() == "xx"
    assert "user dev-1\n" in files.access.read_text()
    site.clock.pass_s(REWRITE_S + 1)
    external.apply({site.ingest_user, user_of(one)}, [])
    assert marks.read_text() == "xxx"
    assert {path.name for path in files.folder.iterdir()} == {
        "ca.pem",
        "server.pem",
        "server.key",
        "access.acl",
        "revoked.crl",
    }, "the broker is given this folder: no other secret lies in it"
    site.server.certificate.unlink()
    assert ensure_server_certificate(site.authority, site.server, ["localhost"])
    external.apply({site.ingest_user, user_of(one)}, [])
    assert marks.read_text() == "xxxx", "told of a renewed certificate"
    assert files.certificate.read_bytes() == site.server.certificate.read_bytes()
    assert files.key.read_bytes() == site.server.key.read_bytes()
    external.stop()
    assert external.status().state is BrokerState.EXTERNAL


def test_a_reload_command_that_fails_is_said_and_tried_again(site: Site, files: ExternalFiles) -> None:
    user = {site.ingest_user}
    failing = [sys.executable, "-c", "import sys; sys.exit('no such\\nunit')"]
    external = ExternalBroker(files, site.server, site.authority, site.clock, reload=failing)
    for _ in range(2):
        with pytest.raises(BrokerError, match="failed with code 1: no such unit"):
            external.apply(user, [])
    assert "failed" in external.status().trouble
    slow = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(BrokerError, match="took longer"):
        ExternalBroker(files, site.server, site.authority, site.clock, reload=slow, reload_s=0.2).apply(
            user, []
        )
    missing = [os.fspath(site.root / "absent")]
    with pytest.raises(BrokerError, match="cannot be run: No such file"):
        ExternalBroker(files, site.server, site.authority, site.clock, reload=missing).apply(user, [])


def test_the_settings_name_the_folder(site: Site, tmp_path: Path) -> None:
    for named, folder in ((None, site.root / "external"), (str(tmp_path / "for-it"), tmp_path / "for-it")):
        section = {"kind": "external", "url": "mqtts://broker.example:8883", "files": named}
        settings = ServerSettings.at(site.root, broker=section)
        broker_of(settings, site.authority, site.clock).start({site.ingest_user}, [])
        assert (folder / "server.key").read_bytes() == site.server.key.read_bytes()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (tmp_path / "file").touch()
    broken = ExternalBroker(ExternalFiles(tmp_path / "file/below"), site.server, site.authority, site.clock)
    with pytest.raises(ConfigError, match="cannot be made: Not a directory"):
        broken.start({site.ingest_user}, [])
