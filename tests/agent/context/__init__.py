"""The system prompt: our text, the environment, instruction files, and git asked without being run by it."""
