"""Pure functions on strings that every room may use. Imports no room, no clock, no disk, no third-party package.

`clean` makes foreign text safe to show, `numbers` writes counts, money and time, `match` searches by a few letters,
`diff` compares and reads patches, `fences` finds Markdown fences, `json` reads JSON without repairing it.
"""
