"""The shell judge: may a command run without asking, because it surely only reads? Pure: it runs nothing.

`grammar` reads the command with tree-sitter and keeps what is on a white list, `words` unquotes, `script` is what comes
of it and knows the folder each part runs in. `programs` and `git` are the tables, `usage` applies one to words, and
`judge` puts them together with the path layer. Everything not surely understood asks.
"""
