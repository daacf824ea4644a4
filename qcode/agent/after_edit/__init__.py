"""The steps after an edit: the configured formatter and checks, and the new problems of the file for the model.

`session` is the interface for the calls of a session. `servers` has the language servers and keeps those that run,
`client` talks to one (the Language Server Protocol), `checkers` are for files without a server, `problems` compares
the problems before and after, and `commands` are those of the settings. The package loads with the first edit.
"""
