"""FFmpeg's errors as one clear sentence. Its own texts hold the URL with its credentials: never shown."""

import errno

import av

from edge_runtime.errors import SourceError
from edge_runtime.sources.address import Address
from edge_runtime.sources.reader import SourceRefused, SourceSilent, SourceUnauthorized
from edge_runtime.sources.redact import without_credentials

_NETWORK = ("rtsp", "http")


def is_silence(error: BaseException) -> bool:
    """Whether a read ended because its time was up."""
    return isinstance(error, (av.error.ExitError, TimeoutError))


def explained(error: BaseException, address: Address) -> SourceError:
    """What to tell a person about a failure to open or read `address`.

    Returns:
        `SourceRefused` where trying again cannot help; a camera may always come back as another one.
    """
    name = address.name
    if is_silence(error):
        limit = f" within {address.times.open_s:g} s" if address.times else ""
        return SourceSilent(f"{name} did not answer{limit}")
    if isinstance(error, av.error.HTTPUnauthorizedError):
        return SourceUnauthorized(f"{name} refuses the user name or password (401)")
    for kinds, text in _SENTENCES:
        if isinstance(error, kinds):
            return _of_kind(address, f"{name} {text}")
    if address.kind not in _NETWORK and isinstance(error, av.error.InvalidDataError):
        text = "is not a video that can be read: another kind of file, damaged, or cut off"
    elif address.kind in _NETWORK and isinstance(error, av.error.InvalidDataError):
        text = "answers, but with nothing that can be read as video; check the path"
    elif address.kind in _NETWORK and getattr(error, "errno", None) == errno.EIO:
        # FFmpeg says so for an unknown host name as for a page that ends too soon.
        text = "gives no stream: its name may be wrong, the network down, or what answers is no camera"
    elif getattr(error, "errno", None) == errno.ENOTTY:
        text = "is not a camera"
    else:
        text = f"cannot be opened: {without_credentials(_reason(error))}"
    return _of_kind(address, f"{name} {text}")


def _of_kind(address: Address, text: str) -> SourceError:
    return SourceRefused(text) if address.times is None else SourceError(text)


def _reason(error: BaseException) -> str:
    """The library's words without the address that it appends."""
    return str(getattr(error, "strerror", None) or type(error).__name__)


_SENTENCES: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    ((av.error.HTTPForbiddenError,), "forbids access (403): this user may not see the stream"),
    ((av.error.HTTPNotFoundError,), "does not exist on the camera (404): check the path"),
    ((ConnectionRefusedError,), "refuses the connection: nothing listens there; check address and port"),
    ((FileNotFoundError,), "does not exist: check the path, or whether the camera is plugged in"),
    ((PermissionError,), "may not be read by this user (a camera: join the group video)"),
    ((av.error.DecoderNotFoundError,), "is coded in a way that this FFmpeg cannot decode"),
    ((av.error.DemuxerNotFoundError,), "has a format that this FFmpeg cannot read"),
    ((av.error.ProtocolNotFoundError,), "uses a protocol that this FFmpeg does not speak"),
    ((EOFError,), "ended before it began: the connection was closed"),
)
