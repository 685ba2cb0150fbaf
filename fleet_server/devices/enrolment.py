"""The enrolment service: from a token and a signing request to a certificate, and from an old one to the next.

A refusal never repeats what came with the request. What it changes (a wrong secret counts) is committed.
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping

from edge_runtime.clock import Clock
from edge_runtime.protocol.enrolment import (
    BrokerAddress,
    EnrolmentRequest,
    EnrolmentResponse,
    EnrolmentState,
    RenewalChallenge,
    RenewalRequest,
)
from fleet_server.authority import CertificateAuthority, CertificateRequest, RequestError
from fleet_server.devices.admission import Admission
from fleet_server.devices.issuing import EnrolmentRules, Issuer
from fleet_server.devices.nonces import NonceMaker
from fleet_server.devices.problems import DeviceProblem, ProblemCode
from fleet_server.devices.renewal import Renewal
from fleet_server.devices.states import RecordAct
from fleet_server.storage import Store


class EnrolmentService:
    """What devices ask of the server's authority. Thread-safe; each call is one transaction.

    Args:
        store: the database.
        authority: signs.
        clock: its wall clock dates everything.
        audit: writes an act into the audit within the transaction.
        broker_address: told to devices.
        rules: lifetimes.
        release_root: gives the fleet's trusted `root.json`, or None where it has no keys for releases.

    Attributes:
        authority, release_root: as given.
    """

    def __init__(
        self,
        store: Store,
        authority: CertificateAuthority,
        clock: Clock,
        audit: RecordAct,
        broker_address: BrokerAddress,
        *,
        rules: EnrolmentRules | None = None,
        release_root: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.authority = authority
        self.release_root = release_root
        self._store = store
        self._issuer = Issuer(authority, clock, broker_address, rules or EnrolmentRules())
        self._nonces = NonceMaker(authority.derived_secret("renewal nonce"))
        self._admission = Admission(self._issuer, audit)
        self._renewal = Renewal(self._issuer, audit, self._nonces)
        self._counting = threading.Lock()
        self._counts: Counter[str] = Counter()

    def counts(self) -> Mapping[str, int]:
        """Since the start: `active`, `pending`, `renewed`, and refusals by their code."""
        with self._counting:
            return dict(self._counts)

    def enrol(self, request: EnrolmentRequest) -> EnrolmentResponse:
        """Let a device in, or have it wait for an operator.

        Repeating a request with the same key is answered from what was decided, and uses nothing up.

        Raises:
            DeviceProblem: refused.
        """
        try:
            wanted = CertificateRequest.parse(request.csr)
        except RequestError as error:
            raise self._counted(DeviceProblem(ProblemCode.REQUEST_INVALID, str(error))) from None
        with self._store.write() as session:
            answer = self._admission.decide(session, request, wanted)
        if isinstance(answer, DeviceProblem):
            raise self._counted(answer)
        self._count(answer.state.value)
        if answer.state is EnrolmentState.ACTIVE:
            return answer.model_copy(update={"release_root": self.release_root()})
        return answer

    def challenge(self) -> RenewalChallenge:
        """A nonce for a renewal, good for two minutes and one use."""
        return RenewalChallenge(nonce=self._nonces.make(self._issuer.now()))

    def renew(self, request: RenewalRequest) -> EnrolmentResponse:
        """Give a device its next certificate.

        The old one stays good until the device renews with the new one, so that a lost answer costs nothing.

        Raises:
            DeviceProblem: refused.
        """
        try:
            with self._store.write() as session:
                answer = self._renewal.renew(session, request)
        except DeviceProblem as problem:
            raise self._counted(problem) from None
        self._count("renewed")
        return answer

    def _counted(self, problem: DeviceProblem) -> DeviceProblem:
        self._count(problem.code.value)
        return problem

    def _count(self, name: str) -> None:
        with self._counting:
            self._counts[name] += 1
