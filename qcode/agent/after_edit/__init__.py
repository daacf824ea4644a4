"""The steps after an edit: the configured formatter and checks, and a report of new problems for the model.

`session` is the interface for the calls of a session. `servers` starts language servers; `client` is the connection to
one server (Language Server Protocol). `checkers` checks files without a server. `problems` compares the problems before
and after an edit. `commands` runs the commands of the settings. The package loads with the first edit.
"""
