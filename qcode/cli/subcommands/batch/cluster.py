"""The tasks of `qcode batch --ray ADDRESS` on a Ray cluster: each task is a Ray task, and needs a CPU of the cluster.

Separate from `batch`, because it imports Ray (the extra `ray`). Every node needs this version of qcode, the folders of
the tasks under the same paths, and keys: neither keys nor environment variables leave this machine. Ray runs a task
again if its node dies. The file still gets one result, because only this process writes it.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

import qcode
from qcode.agent.options import Options
from qcode.cli.subcommands.batch.tasks import BatchTask, SharedLimits, task_result
from qcode.headless.lines import line_without_turn
from qcode.protocol.errors import ErrorInfo, ErrorKind, ExitCode, InputError, UsageError
from qcode.text.clean import single_spaced
from qcode.text.json import JsonObject

MAX_RETRIES = 1
"""The maximum number of repetitions of a task whose worker or node dies."""
CONNECT_TIMEOUT_S = 5.0
CANCEL_TIMEOUT_S = 5.0
"""The time limit in which a cancelled task must end its processes."""


class ClusterRunner:
    """Runs tasks on the nodes of a Ray cluster. Raise `UsageError` without Ray, `InputError` without the cluster."""

    def __init__(self, address: str, options: Options) -> None:
        try:
            import ray
        except ImportError:
            raise UsageError("--ray needs Ray: run pip install '.[ray]' in your clone of qcode") from None
        try:
            _check_reachable(address)
            ray.init(address=address, configure_logging=False, log_to_driver=False)
        except (ray.exceptions.RayError, RuntimeError, ValueError, OSError) as error:
            raise InputError(f"no Ray cluster at {address}: {single_spaced(str(error))[:200]}") from None
        self._ray = ray
        self._options = options
        self._limits = ray.remote(num_cpus=0)(SharedLimits).remote()
        self._remote_run: Any = ray.remote(num_cpus=1, max_retries=MAX_RETRIES, scheduling_strategy="SPREAD")(_run)

    async def result(self, task: BatchTask) -> JsonObject:
        object_ref = self._remote_run.remote(qcode.__version__, task, self._options, self._limits)
        outcome = asyncio.wrap_future(object_ref.future())
        try:
            return cast(JsonObject, await asyncio.shield(outcome))
        except asyncio.CancelledError:
            self._ray.cancel(object_ref)
            await asyncio.wait([outcome], timeout=CANCEL_TIMEOUT_S)
            raise
        except self._ray.exceptions.RayError as error:
            failure = ErrorInfo(ErrorKind.INTERNAL, f"the cluster lost the task: {single_spaced(str(error))[:500]}")
            common: JsonObject = {"id": task.id, "cwd": str(task.cwd), "exit_code": int(ExitCode.TRANSIENT)}
            return {**common, **line_without_turn(failure, session_id="")}

    async def remaining_pause(self) -> float:
        return await _RemoteLimits(self._limits).remaining_pause()


def _check_reachable(address: str) -> None:
    """Raise `OSError` if nothing listens at HOST:PORT or ray://HOST:PORT. Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT_S).close()


def _run(version: str, task: BatchTask, options: Options, actor: object) -> JsonObject:
    """Run a task in a worker of the cluster."""
    host: JsonObject = {"host": socket.gethostname()}
    if version != qcode.__version__:
        text = f"qcode {qcode.__version__} is installed on {socket.gethostname()}, and {version} runs the batch"
        failure = line_without_turn(InputError(text).info, session_id="")
        return {"id": task.id, "cwd": str(task.cwd), **host, "exit_code": int(ExitCode.BAD_INPUT), **failure}
    return {**asyncio.run(task_result(task, options, _RemoteLimits(actor))), **host}


class _RemoteLimits(SharedLimits):
    """The limits in an actor of the cluster, which all workers share."""

    def __init__(self, actor: object) -> None:
        super().__init__()
        self._actor: Any = actor

    async def remaining_pause(self) -> float:
        return cast(float, await self._actor.remaining_pause.remote())

    async def record_refusal(self, retry_after: float | None) -> None:
        await self._actor.record_refusal.remote(retry_after)

    async def record_success(self) -> None:
        await self._actor.record_success.remote()
