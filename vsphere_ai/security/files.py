"""Files: the only module that opens any. What is read is an ordinary file within a limit; what is written is private.

A name may come from a file that another user wrote, so opening it must be harmless: a named pipe would block, a device
may act on being opened, and a link may lead out of the project. The only other files that are opened are data of the
package itself, by `importlib.resources`, and those of the journal, by SQLite.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO

from vsphere_ai.errors import UsageError

if TYPE_CHECKING:
    from ssl import SSLContext

PRIVATE, PRIVATE_FOLDER = 0o600, 0o700
MIB = 1 << 20
SMALL, STATE, DOCUMENT = MIB, 64 * MIB, 64 * MIB
"""Bytes that are read of a key or a certificate; of a file in the state folder; of a plan or a certificate in JSON."""
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
}


class Unfit(OSError):
    """A file that is not opened, or not read to its end; `strerror` is why, in words."""


class Outside(ValueError):
    """The name of a file that is not below the folder of the file in which it is written."""


# -- names


def below(folder: Path, name: str) -> Path:
    """Return the path of a name that is written in a file of a folder; `Outside` where it leads out of the folder.

    Links are resolved. There need not be such a file.
    """
    path = folder / name
    if not name or Path(name).is_absolute() or not is_below(folder, path):
        raise Outside(f"{str(path)!r} is not a file below the folder {str(folder)!r}")
    return path


def is_below(folder: Path, path: Path) -> bool:
    """Return whether a path, all links resolved, is below a folder; not where it cannot be resolved."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # a circle of links, a NUL: nothing that could be opened
        return False


def is_link_out(path: Path) -> bool:
    """Return whether a path that was named leads, by a link, to a file that is not below the folder it was named in."""
    return not is_below(path.parent, path)


# -- reading


def require_file(path: Path) -> None:
    """`Unfit` where a path is anything but an ordinary file, `OSError` where there is none. Nothing is opened."""
    _require_ordinary(_status(path), path)


@contextmanager
def reading(path: Path, most: int | None = None) -> Iterator[BinaryIO]:
    """Open an ordinary file for reading; `Unfit` at once where it is none, or is larger than `most` bytes.

    The caller limits what is read all the same: a file may grow, and those of `/proc` have no size.
    """
    require_file(path)  # some devices act on being opened
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        _require_ordinary(status, path)  # another one may have taken its place
        if most is not None and status.st_size > most:
            raise _too_large(path, most)
        yield file


def read_bytes(path: Path, most: int) -> bytes:
    """Return the content of an ordinary file; `Unfit` where it is none, or has more than `most` bytes."""
    with reading(path, most) as file:
        content = file.read(most + 1) or b""
    if len(content) > most:
        raise _too_large(path, most)
    return content


def version_of(path: Path) -> tuple[int, ...]:
    """Return what differs once a file was written or replaced, to read it again then; `OSError` where there is none."""
    status = _status(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read_text(path: Path, most: int, errors: str = "strict") -> str:
    """Return the text of an ordinary file in UTF-8; see `read_bytes`. `UnicodeDecodeError` unless `errors` differs."""
    return read_bytes(path, most).decode("utf-8", errors)


def load_key_pair(context: SSLContext, certificate: Path, key: Path, password: Callable[[], str]) -> None:
    """Load a certificate and its key into a TLS context, which takes names of files only; `Unfit` as for reading."""
    for path in (certificate, key):
        require_file(path)
    context.load_cert_chain(certificate, key, password=password)


def _too_large(path: Path, most: int) -> Unfit:
    size = f"{most // MIB} MiB" if most >= MIB else f"{most // 1024} KiB"
    return Unfit(errno.EFBIG, f"it is larger than {size}", str(path))


def _status(path: Path) -> os.stat_result:
    try:
        return os.stat(path)
    except ValueError:
        raise Unfit(errno.EINVAL, "its name has a NUL character", str(path)) from None


def _require_ordinary(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise Unfit(errno.EINVAL, f"it is {kind}, not a file", str(path))


# -- writing


def write_private(path: Path, content: bytes, mode: int = PRIVATE, group: int | None = None) -> None:
    """Put a file that only its owner can read in its place in one move, whatever the umask.

    With a `group` its members can read it, too. `Unfit` where something else than an ordinary file is there: a link, a
    named pipe, a device, a folder.
    """
    _require_replaceable(path)
    new = draft(path, content, mode)
    try:
        if group is not None:
            os.chown(new, -1, group)
            new.chmod(mode | stat.S_IRGRP)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def write_output(path: Path, text: str, *, group: int | None = None) -> None:
    """Write a file that a user named, see `write_private`; `UsageError` where it cannot be written."""
    try:
        write_private(path, text.encode(), group=group)
    except OSError as error:
        raise not_written(path, error) from None


def not_written(path: Path, error: OSError) -> UsageError:
    """Return the error for a file that cannot be written."""
    reason = f"{path} cannot be written: {error.strerror or error}"
    return UsageError(reason, "give the name of another file", rule="usage.output")


def draft(path: Path, content: bytes, mode: int = PRIVATE) -> Path:
    """Write a new file beside a path, to be moved there, and return its path; what is in it is on the disk."""
    new = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    return new


def create_private(path: Path) -> None:
    """Make an empty file that only its owner can read; `FileExistsError` where anything is there."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE))


def append_private(path: Path, text: str) -> None:
    """Add text to the end of a file that only its owner can read, made where it is missing; `Unfit` for a link."""
    with _own(path, os.O_WRONLY | os.O_APPEND) as descriptor, os.fdopen(os.dup(descriptor), "ab") as file:
        file.write(text.encode())


def make_private_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, for their owner only, whatever the umask."""
    missing = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
    for each in reversed(missing):
        each.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def _require_replaceable(path: Path) -> None:
    try:
        _require_ordinary(os.lstat(path), path)
    except FileNotFoundError:
        return


# -- locks, and what is no file


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[int]:
    """Lock a file of the state folder, made where it is missing, and yield its descriptor; the kernel ends the lock.

    `BlockingIOError` where another process has it and this does not wait.
    """
    with _own(path, os.O_RDWR) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield descriptor


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Lock a folder against other commands of this tool; the kernel ends the lock with the process."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def flush(folder: Path) -> None:
    """Have the names of new and removed files in a folder on the disk when this returns."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_nowhere() -> IO[str]:
    """Return a stream that takes everything and keeps nothing."""
    return os.fdopen(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), "w")


def open_own(path: Path, flags: int = os.O_RDWR) -> int:
    """Open a file of the state folder, made where it is missing; `Unfit` for a link or a named pipe. Not inherited."""
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, PRIVATE)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise Unfit(errno.EINVAL, "it is a symbolic link, not a file", str(path)) from None
    try:
        _require_ordinary(os.fstat(descriptor), path)
    except Unfit:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def _own(path: Path, flags: int) -> Iterator[int]:
    descriptor = open_own(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
