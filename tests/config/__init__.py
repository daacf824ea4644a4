"""Settings: files, environment and flags, merged with their origins."""
