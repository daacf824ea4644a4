"""Sub-agents over the real engine, driver, tools, rules and session files; the model is scripted."""
