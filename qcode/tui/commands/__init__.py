"""The commands of the app: `command` defines one, `table` lists them all."""
