"""Pure functions on strings for all packages. They use no clock and no disk, and import only `qcode.values`.

`clean` makes untrusted text safe to show, `numbers` formats counts, money and time, `match` is a fuzzy search, `diff`
compares texts and reads patches, `fences` finds Markdown fences, `json` parses JSON without repairing it, `sentences`
changes the case of a message's first letter, `columns` aligns a table, `addresses` finds web addresses, `proxies` finds
the proxy for an address, `redrawn` applies cursor movements such as those of a progress bar, `pattern` compiles regular
expressions at their first use, and `lexers` finds Pygments lexers. Pygments is the only third-party package here.
"""
