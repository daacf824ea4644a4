"""Pure functions on strings for all packages. Imports no other package, no clock, no disk, nothing from third parties.

`clean` makes foreign text safe to show, `numbers` formats counts, money and time, `match` is a fuzzy search, `diff`
compares texts and reads patches, `fences` finds Markdown fences, `json` parses JSON without repairing it, `sentences`
fits a message into a line.
"""
