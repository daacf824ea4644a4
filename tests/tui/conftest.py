"""How a pilot waits for the app: it asks more often than Textual would by itself whether the app has come to rest."""

from __future__ import annotations

import textual._wait

# Textual looks every 20 ms whether the process was idle, twice for each key. The tests wait for what they need by
# itself, so most of that was waiting for nothing. What counts as idle stays a twentieth of the time between two looks.
textual._wait.SLEEP_GRANULARITY = 1 / 200
textual._wait.SLEEP_IDLE = textual._wait.SLEEP_GRANULARITY / 20
