"""The system prompt: base text, environment, instruction files, and the state of git, read safely."""
