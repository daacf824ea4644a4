"""The shell judge: decides whether a command certainly only reads, so that it may run without asking. It runs nothing.

`parser` reads the command with tree-sitter into the values of `ast`, by an allowlist. `flow` lists the simple commands
that bash would run, with the folders they run in. `table` (with commands.toml), `git` and `languages` interpret the
arguments of a command, `file_reads` checks the files it names. `judge` combines them. Anything uncertain asks.
"""
