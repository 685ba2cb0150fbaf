"""What a release may hold: data. What a machine could be made to execute is refused, by its name and by its bytes.

The same check runs where a release is packed, where it is published and where a device has fetched it, because each
of them may be the only honest one. It is pure but for reading the stream that it is given.
"""

import ast
import re
import stat
import zipfile
from typing import BinaryIO, Final

HEAD_BYTES: Final = 512
"""So many first bytes of a file are enough for `why_refused`; a tar archive says what it is at byte 257."""

_CODE: Final = frozenset(
    [
        "a",
        "apk",
        "bash",
        "bat",
        "class",
        "cmd",
        "com",
        "csh",
        "deb",
        "dll",
        "dylib",
        "egg",
        "elf",
        "exe",
        "fish",
        "jar",
        "js",
        "ko",
        "lua",
        "msi",
        "o",
        "out",
        "pl",
        "ps1",
        "py",
        "pyc",
        "pyd",
        "pyo",
        "pyw",
        "rb",
        "rpm",
        "sh",
        "so",
        "wasm",
        "whl",
        "zsh",
    ]
)
_PICKLES: Final = frozenset(["ckpt", "dill", "joblib", "p", "pickle", "pkl", "pt", "pth"])
_ARCHIVES: Final = frozenset(
    [
        "7z",
        "ar",
        "bz2",
        "cab",
        "cpio",
        "gz",
        "lz4",
        "lzma",
        "rar",
        "tar",
        "tbz",
        "tgz",
        "txz",
        "xz",
        "zip",
        "zst",
    ]
)
_ENGINES: Final = frozenset(["engine", "plan", "trt"])
_MAGIC: Final = (
    (b"\x7fELF", "an ELF program or library"),
    (b"MZ", "a Windows program or library"),
    (b"\xfe\xed\xfa\xce", "a Mach-O program"),
    (b"\xfe\xed\xfa\xcf", "a Mach-O program"),
    (b"\xce\xfa\xed\xfe", "a Mach-O program"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O program"),
    (b"\xca\xfe\xba\xbe", "a Mach-O or Java program"),
    (b"\x00asm", "a WebAssembly program"),
    (b"BC\xc0\xde", "LLVM bitcode"),
    (b"!<arch>\n", "an archive of object files"),
    (b"#!", "a script"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!", "a rar archive"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"PK\x07\x08", "a zip archive in parts"),
)
_ZIP: Final = b"PK\x03\x04"
_NUMPY: Final = b"\x93NUMPY"
_NUMBERS: Final = re.compile(r"[|<>=]?[?biufcmMSUV]\d*(\[\d*[A-Za-z]+\])?")
_FIELDS: Final = frozenset(["descr", "fortran_order", "shape"])
_MOST_ARRAYS: Final = 256


def why_refused(path: str, head: bytes) -> str | None:
    """Why a file may not be in a release, by its path and its first bytes.

    Args:
        path: of the file within the release.
        head: its first `HEAD_BYTES` bytes, fewer where it is shorter.

    Returns:
        What it is, to follow "it is"; None for a file that may be there. A NumPy archive (`.npz`) is let pass here:
        `why_file_refused` looks into it.
    """
    return _by_name(path) or _by_bytes(path, head)


def why_file_refused(path: str, stream: BinaryIO) -> str | None:
    """As `why_refused`, and the arrays of a NumPy archive one by one.

    Args:
        path: of the file within the release.
        stream: the whole file, which can seek; it is left anywhere.
    """
    stream.seek(0)
    head = stream.read(HEAD_BYTES)
    found = why_refused(path, head)
    if found is not None or not head.startswith(_ZIP):
        return found
    stream.seek(0)
    return _arrays(stream)


def why_mode_refused(mode: int) -> str | None:
    """Why a file of a folder may not be packed, by its `st_mode`."""
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if not stat.S_ISREG(mode):
        return "no regular file"
    if mode & 0o111:
        return "marked executable (chmod a-x, where it is none)"
    return None


def _by_name(path: str) -> str | None:
    # `libfoo.so.1` is a library too, whatever its version is called
    endings = path.rpartition("/")[2].lower().split(".")[1:]
    if any(ending in _CODE for ending in endings[-1:]) or "so" in endings:
        return "a program or library by its name"
    last = endings[-1] if endings else ""
    if last in _PICKLES:
        return "a pickle by its name, which runs code when it is loaded"
    if last in _ARCHIVES:
        return "an archive by its name"
    if last in _ENGINES:
        return "a built engine by its name: a device builds its own"
    return None


def _by_bytes(path: str, head: bytes) -> str | None:
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    if head.startswith(_ZIP) and not path.lower().endswith(".npz"):
        return "a zip archive"
    if head[257:262] == b"ustar":
        return "a tar archive"
    if len(head) > 1 and head[0] == 0x80 and 2 <= head[1] <= 5:
        return "a pickle, which runs code when it is loaded"
    if len(head) > 3 and 0x0C <= head[1] <= 0x0F and head[2:4] == b"\r\n":
        return "compiled Python"
    return _numpy(head)


def _numpy(head: bytes) -> str | None:
    """Whether an array is one of plain numbers, by what its header says and not by how that is written."""
    if not head.startswith(_NUMPY):
        return None
    size = {1: 2, 2: 4, 3: 4}.get(head[6] if len(head) > 7 else 0)
    if size is None:
        return "an array in a format that is not known here"
    begin = 8 + size
    end = begin + int.from_bytes(head[8:begin], "little")
    if end > len(head):
        return f"an array whose header is cut short or longer than {HEAD_BYTES} bytes"
    try:
        header = ast.literal_eval(head[begin:end].decode("utf-8" if head[6] == 3 else "latin-1").strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return "an array whose header cannot be read"
    if not isinstance(header, dict) or header.keys() != _FIELDS:
        return "an array whose header cannot be read"
    return (
        None
        if _is_plain(header["descr"])
        else "an array of Python objects, a pickle, or of what is not known here"
    )


def _is_plain(descr: object) -> bool:
    """Whether a NumPy type is of numbers, texts and dates alone: a name, or a list of named fields of such."""
    if isinstance(descr, str):
        return _NUMBERS.fullmatch(descr) is not None
    if isinstance(descr, tuple):  # of one kind and a shape
        return len(descr) == 2 and _is_plain(descr[0])
    if not isinstance(descr, list) or not descr:
        return False
    return all(isinstance(field, tuple) and len(field) in (2, 3) and _is_plain(field[1]) for field in descr)


def _arrays(stream: BinaryIO) -> str | None:
    try:
        with zipfile.ZipFile(stream) as archive:
            members = archive.infolist()
            if len(members) > _MOST_ARRAYS:
                return f"a NumPy archive of more than {_MOST_ARRAYS} arrays"
            for member in members:
                with archive.open(member) as opened:
                    head = opened.read(HEAD_BYTES)
                if not member.filename.endswith(".npy") or not head.startswith(_NUMPY):
                    return "a zip archive that holds something else than arrays"
                if found := _numpy(head):
                    return found
    # whatever the library makes of a damaged or hostile archive
    except (zipfile.BadZipFile, ValueError, RuntimeError, NotImplementedError, EOFError, OSError, KeyError):
        return "a zip archive that cannot be read"
    except Exception as error:  # noqa: BLE001 - zlib.error and its like have no common base
        return f"a zip archive that cannot be read ({type(error).__name__})"
    return None
