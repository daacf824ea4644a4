"""Pure functions on strings for all packages. They use no clock and no disk, and import only `qcode.values`.

`clean` makes untrusted text safe to show, and `redrawn` applies cursor movements such as those of a progress bar.
`numbers` formats counts, money and durations; `columns` aligns a table; `sentences` changes the case of a first letter.
`match` is a fuzzy search. `diff` compares texts and reads diffs, `patch` reads patches of GPT models. `json` parses
JSON without repairing it. `fences` finds Markdown fences, `links` web addresses, `proxies` the proxy for an address,
and `lexers` Pygments lexers; `credentials` hides those of an address. `pattern` compiles regular expressions at their
first use. Pygments is the only third-party package here.
"""
