"""Asks a host whether it takes a key, with one small request: its list of models, or what only a valid key gets."""

from __future__ import annotations

import asyncio
import re
from typing import Literal

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.provider import Provider
from qcode.protocol.values import dataclass
from qcode.providers.openai_sdk import OpenAISdkProvider

LIMIT_S = 15.0
_LACKS_SCOPE = re.compile(r"missing scope", re.IGNORECASE)
_TAKEN = (ErrorKind.QUOTA, ErrorKind.RATE_LIMIT)


@dataclass(frozen=True, slots=True)
class Checked:
    """`unknown`: the host could not be asked, or did not say. `models` are the names it listed.

    `note` is one line without the key, empty where all is well.
    """

    verdict: Literal["accepted", "refused", "unknown"]
    note: str = ""
    models: tuple[str, ...] = ()


async def check_key(provider: Provider, key_path: str = "", limit_s: float = LIMIT_S) -> Checked:
    """Ask within `limit_s` seconds, connecting included; never raises but for a cancellation. Closes the provider.

    `key_path`: see `ProviderSpec`.
    """
    try:
        async with asyncio.timeout(limit_s):
            if key_path and isinstance(provider, OpenAISdkProvider):
                await provider.check_path(key_path)
            return Checked("accepted", models=await provider.model_names())
    except TimeoutError:
        return Checked("unknown", f"{provider.name} did not answer within {limit_s:g} s")
    except ProviderError as error:
        return _of_error(error)
    except (AttributeError, TypeError, ValueError):
        # An SDK that trips over an answer of another form: there was one, but it says nothing about the key.
        return Checked("unknown", f"{provider.name} gave an answer that is no list of models")
    finally:
        await provider.close()


def _of_error(error: ProviderError) -> Checked:
    if error.kind in (ErrorKind.AUTH, ErrorKind.NO_CREDENTIAL):
        # A key may be restricted to requests that are not this one.
        if error.status == 403 and _LACKS_SCOPE.search(error.message):
            return Checked("accepted", "the key may not list models; that is no hindrance")
        return Checked("refused", error.message)
    if error.kind in _TAKEN:
        return Checked("accepted", error.message)
    return Checked("unknown", error.message)
