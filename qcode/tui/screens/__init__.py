"""Modal screens that let the user pick something. Each is opened by a command."""
