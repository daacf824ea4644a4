"""The direct way to a host: its parts alone, and the whole of it against scripted servers and the SDKs."""
