"""The built-in demo model `demo/demo`: qcode with every feature, offline and without a key.

It follows a script and says so. `provider` is what the registry makes, `SCENARIOS` what a front end lists.
Nothing here touches a network, a disk or a clock other than the pause between two chunks.
"""

from __future__ import annotations

from qcode.providers.demo.provider import DEMO_FACTS, DEMO_MODEL, DemoProvider
from qcode.providers.demo.scenarios import SCENARIOS, Scenario
from qcode.providers.demo.script import CHARS_PER_TOKEN

__all__ = ["CHARS_PER_TOKEN", "DEMO_FACTS", "DEMO_MODEL", "SCENARIOS", "DemoProvider", "Scenario"]
