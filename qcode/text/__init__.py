"""Pure functions on strings for all packages. Imports no other package, no clock, no disk, nothing from third parties.

`clean` makes foreign text safe to show, `numbers` formats counts, money and time, `match` is a fuzzy search, `diff`
compares texts and reads patches, `fences` finds Markdown fences, `json` parses JSON without repairing it, `sentences`
changes the first letter of a message, `columns` aligns a table, `addresses` finds web addresses, `lexers` names the
language of a file, `proxies` finds the proxy for an address, `pattern` compiles regular expressions late.
"""
