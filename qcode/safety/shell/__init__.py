"""The shell judge: a command runs without approval only if it certainly does nothing but read.

The judge runs nothing. `parser` parses the command with tree-sitter into the types of `ast` and accepts only the syntax
on an allowlist. `flow` lists the simple commands that bash would run, with the folders they run in. `table` (with
commands.toml), `git` and `languages` interpret the arguments of a command, and `file_reads` checks the files it names.
`judge` combines them. If anything is uncertain, the user is asked.
"""
