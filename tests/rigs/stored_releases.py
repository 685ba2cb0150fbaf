"""Releases of small files, put into a store as a download would."""

import hashlib

from edge_runtime.protocol.release import Bundle, BundleFile, Opening, ReleaseKind, ReleaseTerms
from edge_runtime.updates.store import ReleaseStore
from edge_runtime.updates.wants import Want


def made(files: dict[str, bytes], *, counter: int = 1) -> tuple[Bundle, ReleaseTerms, str]:
    """A bundle of these files, terms for it, and the SHA-256 that names it."""
    listed = tuple(
        BundleFile(path=path, sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))
        for path, data in sorted(files.items())
    )
    bundle = Bundle(kind=ReleaseKind.MODEL, name="people", files=listed)
    terms = ReleaseTerms(
        kind=ReleaseKind.MODEL,
        name="people",
        counter=counter,
        package="sha256:" + "b" * 64,
        total_bytes=max(1, bundle.total_bytes),
        salt="0" * 16,
        openings=(Opening(basis_points=10_000),),
    )
    return bundle, terms, bundle.sha256


def bring(store: ReleaseStore, files: dict[str, bytes], bundle: Bundle) -> list[str]:
    """Put what a bundle lacks into the store, as a download would; the digests that were lacking."""
    contents = {hashlib.sha256(data).hexdigest(): data for data in files.values()}
    lacking = store.missing(bundle)
    for want in lacking:
        part = store.places.parts / f"{want.sha256}.part"
        part.write_bytes(contents[want.sha256])
        assert store.take(part, want)
    return [want.sha256 for want in lacking]


def put(store: ReleaseStore, files: dict[str, bytes], *, counter: int = 1) -> str:
    """A whole release in the store; the SHA-256 that names it."""
    bundle, terms, sha256 = made(files, counter=counter)
    bring(store, files, bundle)
    store.keep(bundle, terms)
    return sha256


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def want(data: bytes) -> Want:
    return Want(digest(data), len(data))


def put_configuration(store: ReleaseStore, overlay: str, *, policy: str | None = None) -> str:
    """A release of a configuration in the store; the SHA-256 that names it."""
    files = {"overlay.yaml": overlay.encode()} | ({} if policy is None else {"policy.yaml": policy.encode()})
    model, model_terms, _ = made(files)
    bundle = model.model_copy(update={"kind": ReleaseKind.CONFIGURATION, "name": "site"})
    given = model_terms.model_dump() | {"kind": ReleaseKind.CONFIGURATION, "name": "site", "package": None}
    bring(store, files, bundle)
    store.keep(bundle, ReleaseTerms.model_validate(given))
    return digest(bundle.canonical_bytes())
