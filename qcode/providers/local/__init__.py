"""Model servers on this machine or its network: finding one, and asking it how large a context it really gives.

Plain sockets and HTTP/1.0 (`asking`): nobody listens on most machines, and then this costs no import and no time.
It asks for lists and settings only; nothing is sent to a model and none is loaded.
"""

from __future__ import annotations

from qcode.providers.local.finding import find_local_server
from qcode.providers.local.windows import LocalWindow, WindowQuestion

__all__ = ["LocalWindow", "WindowQuestion", "find_local_server"]
