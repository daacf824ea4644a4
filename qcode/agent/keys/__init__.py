"""API keys that the user stored in the system keyring, or in a private file if no keyring works. Start at `keys`."""
