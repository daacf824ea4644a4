"""The rows, by kind of fault. No two rows have both cause and phase in common."""

from __future__ import annotations

from tests.e2e.limits.row import Row
from tests.e2e.limits.table.calls import CALLS
from tests.e2e.limits.table.cancels import CANCELS
from tests.e2e.limits.table.continued_calls import CONTINUED_CALLS
from tests.e2e.limits.table.cuts import CUTS
from tests.e2e.limits.table.hosts import HOSTS
from tests.e2e.limits.table.refusals import REFUSALS
from tests.e2e.limits.table.resumed import RESUMED
from tests.e2e.limits.table.seams import SEAMS
from tests.e2e.limits.table.settings import SETTINGS
from tests.e2e.limits.table.thinking import THINKING
from tests.e2e.limits.table.transport import TRANSPORT
from tests.e2e.limits.table.windows import WINDOWS

ROWS: tuple[Row, ...] = (
    *CUTS,
    *CALLS,
    *CONTINUED_CALLS,
    *RESUMED,
    *THINKING,
    *REFUSALS,
    *SETTINGS,
    *WINDOWS,
    *HOSTS,
    *TRANSPORT,
    *CANCELS,
    *SEAMS,
)
