"""API keys of providers: their sources, their storage in a keyring or file, and the setup. Start at `keys`."""
