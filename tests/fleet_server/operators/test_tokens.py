"""Tokens of the API: the secret is nowhere, and what is over is over at once."""

import pytest
from sqlalchemy import select

from fleet_server.operators import Role
from fleet_server.operators.tokens import TokenBook, TokenRefused
from fleet_server.storage import Store
from fleet_server.storage.operator_tables import ApiTokenRow
from tests.rigs.deliveries import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def book(clock: FakeClock) -> TokenBook:
    return TokenBook(clock)


def make(store: Store, book: TokenBook, name: str, role: Role = Role.VIEWER, life: int | None = None) -> str:
    with store.write() as session:
        return book.create(session, name, role, life)[1]


def test_a_token_is_known_by_its_text_and_the_database_has_no_secret(store: Store, book: TokenBook) -> None:
    text = make(store, book, "anna", Role.APPROVER)
    with store.read() as session:
        operator = book.authenticate(session, text)
        row = session.scalars(select(ApiTokenRow)).one()
    assert operator is not None
    assert (operator.name, operator.role) == ("anna", Role.APPROVER)
    secret = text.split(".")[2]
    assert all(secret not in str(getattr(row, column.name)) for column in ApiTokenRow.__table__.columns)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-1] + ("A" if text[-1] != "A" else "B"),
        lambda text: text + "A",
        lambda text: text.replace("eft1.", "eft2."),
        lambda text: "eft1." + "0" * 16 + text[21:],
        lambda _: "",
        lambda _: "' OR 1=1 --",
        lambda text: text.upper(),
    ],
)
def test_anything_else_is_nobody(store: Store, book: TokenBook, spoil: object) -> None:
    text = make(store, book, "anna")
    with store.read() as session:
        assert book.authenticate(session, spoil(text)) is None  # type: ignore[operator]


def test_a_token_ends_when_it_should(store: Store, book: TokenBook, clock: FakeClock) -> None:
    text = make(store, book, "anna", life=60)
    clock.advance(59)
    with store.read() as session:
        assert book.authenticate(session, text) is not None
    clock.advance(1)
    with store.read() as session:
        assert book.authenticate(session, text) is None
        assert [token.state for token in book.tokens(session)] == ["expired"]


def test_a_revoked_token_is_out_and_its_name_stays_taken(store: Store, book: TokenBook) -> None:
    text = make(store, book, "anna")
    with store.write() as session:
        revoked = book.revoke(session, "anna")
    assert revoked is not None
    assert revoked.state == "revoked"
    with store.read() as session:
        assert book.authenticate(session, text) is None
    with pytest.raises(TokenRefused, match="names are used once"):
        make(store, book, "anna")


def test_the_last_admin_cannot_lock_everybody_out(store: Store, book: TokenBook) -> None:
    make(store, book, "root", Role.ADMIN)
    with pytest.raises(TokenRefused, match="last active admin"), store.write() as session:
        book.revoke(session, "root")
    make(store, book, "second", Role.ADMIN)
    with store.write() as session:
        assert book.revoke(session, "root") is not None


@pytest.mark.parametrize("name", ["", " anna", "a" * 65, "a\nb", "../x", "a;DROP TABLE api_tokens", "é"])
def test_a_name_that_would_spoil_a_list_is_refused(store: Store, book: TokenBook, name: str) -> None:
    with pytest.raises(TokenRefused):
        make(store, book, name)


def test_roles_include_the_ones_before_them() -> None:
    assert [role.includes(Role.OPERATOR) for role in Role] == [False, True, True, True]
