"""Runs `qcode acp`: the standard streams, the signals, and the end of the process.

Standard output carries only the protocol; other output goes to standard error. The process ends within two seconds
after the client closes standard input. Separate from `server`, so that the methods can be tested without a process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, BinaryIO

from qcode.acp.server import Server
from qcode.acp.wire import EditorWire
from qcode.protocol.errors import ExitCode

if TYPE_CHECKING:
    from qcode.agent.options import Options

EXIT_S = 0.15
"""How long the process waits for its threads after the last output.

All files are closed by then. But a thread may still be opening a session, which loads many modules.
"""
DRAIN_S = 0.1
"""How long the last requests may take after all sessions have ended."""


def run_acp(options: Options) -> int:
    """Serve one client on the standard streams and return the exit code."""
    descriptor, output = os.dup(0), os.fdopen(os.dup(1), "wb", buffering=0)
    # Only the copies carry the protocol: other code and child processes read nothing, and print to standard error.
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return asyncio.run(_serve(options, descriptor, output))


async def _serve(options: Options, descriptor: int, output: BinaryIO) -> int:
    stopped = asyncio.Event()
    code = ExitCode.OK

    def stop(number: int) -> None:
        nonlocal code
        code = ExitCode.INTERRUPTED if number == signal.SIGINT else ExitCode.TERMINATED
        stopped.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
    server = Server(options)
    wire = EditorWire(descriptor, output, server.call_method, on_lost=stopped.set, describe=_describe_failure)
    server.attach(wire)
    await stopped.wait()
    await server.close()
    await wire.drain(DRAIN_S)
    forced_exit = threading.Timer(EXIT_S, os._exit, (int(code),))
    forced_exit.daemon = True
    forced_exit.start()
    return code


def _describe_failure(failure: BaseException) -> str:
    from qcode.agent.crash import describe_crash

    return describe_crash(failure, os.environ)
