"""Evidence over HTTPS: resumed, bounded, checked, and only what the outbox names."""

import contextlib
import hashlib
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from edge_runtime.clock import NS_PER_MS, SystemClock
from edge_runtime.outbox import EvidenceDue, EvidenceFile, Outbox, OutboxSettings
from edge_runtime.protocol.delivery import Receipt
from edge_runtime.state import StateDirectory
from edge_runtime.uplink import LinkIdentity, UplinkSettings
from edge_runtime.uplink.budget import ByteBudget
from edge_runtime.uplink.evidence import EvidenceUploader, UploadClient, Verdict
from tests.rigs.brokers import wait_until
from tests.rigs.connect_proxy import ConnectProxy
from tests.rigs.evidence_server import EvidenceServer
from tests.rigs.pki import Credentials, Pki
from tests.rigs.uplinks import identity, submission


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def party(pki: Pki) -> Credentials:
    return pki.device("dev-1")


@pytest.fixture
def server(pki: Pki) -> Iterator[EvidenceServer]:
    with EvidenceServer(pki.server()) as started:
        yield started


def crop(folder: Path, size: int = 10_000) -> EvidenceDue:
    data = os.urandom(size)
    digest = hashlib.sha256(data).hexdigest()
    path = folder / f"{digest}.jpg"
    path.write_bytes(data)
    return EvidenceDue(digest, size, str(path), 60_000)


class Client:
    """An upload client with its parts."""

    def __init__(
        self,
        folder: Path,
        server: EvidenceServer,
        party: Credentials,
        *,
        daily: int | None = None,
        limit_s: float = 5.0,
    ) -> None:
        self.budget = ByteBudget(folder / "budget.json", daily, 0.0, SystemClock())
        self.http = httpx.Client(verify=party.client_context(), trust_env=False, timeout=3.0)
        self.stop = threading.Event()
        self.client = UploadClient(
            server.url,
            self.http,
            piece_bytes=4_000,
            budget=self.budget,
            stop=self.stop,
            clock=SystemClock(),
            limit_s=limit_s,
        )


@pytest.fixture
def client(tmp_path: Path, server: EvidenceServer, party: Credentials) -> Iterator[Client]:
    made = Client(tmp_path, server, party)
    yield made
    made.http.close()


def test_a_crop_goes_up_in_pieces_under_the_devices_name(
    tmp_path: Path, server: EvidenceServer, client: Client
) -> None:
    due = crop(tmp_path)
    server.named[due.sha256] = due.bytes
    assert client.client.upload(due) is Verdict.DONE
    assert server.stored[due.sha256] == Path(due.path).read_bytes()
    assert server.devices == {"dev-1"}
    assert [(method, offset) for method, _, offset in server.requests] == [
        ("HEAD", None),
        ("PATCH", 0),
        ("PATCH", 4_000),
        ("PATCH", 8_000),
    ]
    assert client.budget.used >= due.bytes


def test_a_cut_upload_goes_on_where_the_server_stands(
    tmp_path: Path, server: EvidenceServer, client: Client
) -> None:
    due = crop(tmp_path)
    server.named[due.sha256] = due.bytes
    server.cut_after = 2_500
    for expected in (2_500, 5_000):
        assert client.client.upload(due) is Verdict.LATER
        assert len(server.stored[due.sha256]) == expected
    server.cut_after = None
    assert client.client.upload(due) is Verdict.DONE
    assert server.stored[due.sha256] == Path(due.path).read_bytes()


def test_a_complete_upload_is_not_sent_again(tmp_path: Path, server: EvidenceServer, client: Client) -> None:
    due = crop(tmp_path)
    server.named[due.sha256] = due.bytes
    server.stored[due.sha256] = Path(due.path).read_bytes()
    assert client.client.upload(due) is Verdict.DONE
    assert [method for method, _, _ in server.requests] == ["HEAD"]


def test_what_no_event_named_is_refused_now_and_may_go_later(
    tmp_path: Path, server: EvidenceServer, client: Client
) -> None:
    due = crop(tmp_path)
    assert client.client.upload(due) is Verdict.LATER
    server.named[due.sha256] = due.bytes
    assert client.client.upload(due) is Verdict.DONE


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (500, Verdict.LATER),
        (503, Verdict.LATER),
        (429, Verdict.LATER),
        (302, Verdict.LATER),
        (413, Verdict.NEVER),
    ],
)
def test_refusals_of_the_server(
    tmp_path: Path, server: EvidenceServer, client: Client, status: int, verdict: Verdict
) -> None:
    due = crop(tmp_path)
    server.named[due.sha256] = due.bytes
    server.fault = lambda: status
    assert client.client.upload(due) is verdict


@pytest.mark.parametrize("damage", ["gone", "longer", "other"])
def test_a_file_that_is_not_what_was_promised_never_goes(
    tmp_path: Path, server: EvidenceServer, client: Client, damage: str
) -> None:
    due = crop(tmp_path)
    server.named[due.sha256] = due.bytes
    path = Path(due.path)
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes() + b"x" if damage == "longer" else os.urandom(due.bytes))
    assert client.client.upload(due) is Verdict.NEVER
    assert server.requests == []


def test_a_spent_budget_stops_it_and_what_arrived_counts(
    tmp_path: Path, server: EvidenceServer, party: Credentials
) -> None:
    client = Client(tmp_path, server, party, daily=10_000)
    due = crop(tmp_path, 30_000)
    server.named[due.sha256] = due.bytes
    assert client.client.upload(due) is Verdict.BROKE
    assert 0 < len(server.stored[due.sha256]) <= 10_000
    client.http.close()


def test_an_answer_that_drips_is_cut_at_the_deadline(
    tmp_path: Path, server: EvidenceServer, party: Credentials
) -> None:
    client = Client(tmp_path, server, party, limit_s=0.5)
    due = crop(tmp_path)
    server.named[due.sha256] = due.bytes
    server.drip = True
    begin = time.monotonic()
    assert client.client.upload(due) is Verdict.LATER
    assert time.monotonic() - begin < 4
    server.drip = False
    assert client.client.upload(due) is Verdict.DONE
    client.http.close()


def test_a_server_of_another_authority_gets_nothing(tmp_path: Path, server: EvidenceServer) -> None:
    rogue = Pki(tmp_path / "rogue", "rogue").device("dev-1")
    client = Client(tmp_path, server, rogue)
    due = crop(tmp_path)
    server.named[due.sha256] = due.bytes
    assert client.client.upload(due) is Verdict.LATER
    assert server.requests == []
    client.http.close()


@pytest.mark.parametrize("proxied", [False, True])
def test_the_thread_uploads_what_the_outbox_names_once_the_server_answers(
    tmp_path: Path, server: EvidenceServer, party: Credentials, proxied: bool
) -> None:
    with ConnectProxy() as proxy:
        settings = UplinkSettings(proxy=f"http://127.0.0.1:{proxy.port}" if proxied else None)
        upload_what_is_due(tmp_path, server, party, settings)
        assert bool(proxy.asked) == proxied


def upload_what_is_due(
    tmp_path: Path, server: EvidenceServer, party: Credentials, settings: UplinkSettings
) -> None:
    clock = SystemClock()
    state = StateDirectory(tmp_path / "state").ensure()
    with contextlib.closing(Outbox(state.outbox, OutboxSettings(), clock, evidence=state.evidence)) as outbox:
        crops = [crop(state.evidence) for _ in range(4)]
        for due in crops:
            outbox.put([submission(evidence=EvidenceFile(due.sha256, due.bytes))])
        Path(crops[3].path).unlink()
        server.named = {due.sha256: due.bytes for due in crops[:2]}
        online = threading.Event()
        who: LinkIdentity = identity(party, "localhost", 1, server_url=server.url)
        uploader = EvidenceUploader(
            lambda: who,
            settings,
            outbox=outbox,
            budget=ByteBudget(tmp_path / "budget.json", None, 0.0, clock),
            online=online.is_set,
            clock=clock,
            rng=random.Random(1),
            look_s=0.05,
        )
        uploader.start()
        assert not wait_until(lambda: bool(server.requests), 0.2)
        online.set()
        assert not wait_until(lambda: bool(server.requests), 0.2), "no event was receipted yet"
        now_ms = clock.wall().unix_ns // NS_PER_MS
        epoch = outbox.sync_point().epoch
        assert len(outbox.lease(4, 1 << 20)) == 4
        outbox.settle(epoch, Receipt(epoch=epoch, high=4, credit=9, server_ms=now_ms))
        assert wait_until(lambda: uploader.done == 2 and uploader.never == 1)
        assert wait_until(lambda: uploader.later >= 1)
        uploader.stop(3.0)
        assert sorted(server.done) == sorted(due.sha256 for due in crops[:2])
        assert [path.stem for path in state.evidence.iterdir()] == [crops[2].sha256]
        assert {digest for _, digest, _ in server.requests} == {due.sha256 for due in crops[:3]}


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_what_is_no_file_is_never_a_crop(tmp_path: Path, kind: str) -> None:
    clock = SystemClock()
    data = b"a crop"
    due = EvidenceDue(hashlib.sha256(data).hexdigest(), len(data), str(tmp_path / "crop.jpg"), 1000)
    if kind == "pipe":
        os.mkfifo(due.path)
    elif kind == "link":
        (tmp_path / "elsewhere").write_bytes(data)
        Path(due.path).symlink_to(tmp_path / "elsewhere")
    else:
        Path(due.path).mkdir()
    with httpx.Client() as client:
        budget = ByteBudget(tmp_path / "budget.json", None, 0.0, clock)
        upload = UploadClient(
            "https://nowhere.invalid",
            client,
            piece_bytes=10,
            budget=budget,
            stop=threading.Event(),
            clock=clock,
        )
        assert upload.upload(due) is Verdict.NEVER
