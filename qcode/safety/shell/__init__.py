"""The shell judge: may a command run without asking, because it surely only reads? Pure: it runs nothing.

`parser` reads the command with tree-sitter into the values of `ast`, by an allowlist. `flow` lists the simple commands
that bash would run, with the folders they run in. `table` (with commands.toml), `git` and `languages` say what a
command does with its arguments, `file_reads` whether the files it names may be read. `judge` puts them together.
Everything that is not surely understood asks.
"""
