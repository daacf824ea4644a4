"""The model a run begins with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from qcode.cli.failure import StartError
from qcode.cli.keys import Keys
from qcode.cli.selection import Selection, choose
from qcode.cli.surroundings import Surroundings
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.runtime.choices import Choices


def begin_with(around: Surroundings) -> Selection:
    """Return what the flags, the settings and the keys of this run choose; raise `StartError` where there is none."""
    arguments = around.arguments
    with provider_failures(around.keys):
        return choose(
            around.settings,
            around.keys,
            arguments.model,
            arguments.base_url,
            has_demo=around.is_attended,
            connected=Choices(around.paths.state_dir).model,
        )


@contextmanager
def provider_failures(keys: Keys) -> Iterator[None]:
    """Turn the failure of a provider inside into a `StartError`, with what is wrong with the keys where one lacks."""
    try:
        yield
    except ProviderError as error:
        if error.kind in (ErrorKind.NO_CREDENTIAL, ErrorKind.AUTH):
            raise StartError("\n".join((error.message, *keys.complaints)), 41) from None
        raise StartError(error.message, 2) from None
