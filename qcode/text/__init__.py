"""Pure functions on strings for all packages. Imports no other package but `values`, no clock and no disk.

`clean` makes untrusted text safe to show, `numbers` formats counts, money and time, `match` is a fuzzy search, `diff`
compares texts and reads patches, `fences` finds Markdown fences, `json` parses JSON without repairing it, `sentences`
changes the first letter of a message, `columns` aligns a table, `addresses` finds web addresses, `proxies` finds the
proxy for an address, `pattern` compiles regular expressions late, and `lexers` finds the lexer of a language in
Pygments, the only third-party package here.
"""
