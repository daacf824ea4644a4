"""The one way for a tool to say no: a reason in plain words that the model can act on."""

from __future__ import annotations

import errno
import os


class Refused(Exception):  # noqa: N818  # an answer, not a failure
    """The call is refused and nothing was changed. The text goes to the model as it is."""


def explain(error: OSError, shown: str) -> str:
    """Return one line for a failed system call on the file shown as `shown`."""
    known = {
        errno.ENOENT: "does not exist",
        errno.ENOTDIR: "goes through something that is not a folder",
        errno.EISDIR: "is a folder",
        errno.EACCES: "is not accessible (permission denied)",
        errno.EPERM: "may not be changed (operation not permitted)",
        errno.EROFS: "is on a read-only file system",
        errno.ENOSPC: "could not be written: the disk is full",
        errno.EDQUOT: "could not be written: the disk quota is used up",
        errno.EFBIG: "could not be written: it would be larger than this system allows (file size limit)",
        errno.ETXTBSY: "is a program that runs now",
        errno.ELOOP: "leads through a link that changed or loops",
        errno.ENAMETOOLONG: "has a name that is too long",
        errno.EXDEV: "is on another device",
    }
    code = error.errno or 0
    return f"{shown} {known.get(code) or f'failed: {os.strerror(code)}'}"
