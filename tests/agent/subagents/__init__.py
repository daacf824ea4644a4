"""Sub-agents over the real engine, driver, tools, rules and session files; the model plays what it is asked for."""
