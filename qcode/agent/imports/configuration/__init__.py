"""Import of what other programs keep in their settings: tool servers, rules, commands, agents and prompts.

`programs` finds it, `servers`, `rules` and `prompts` convert it, `target` compares it with the configuration of qcode
and writes it. Nothing that is found here is run, and the files of the other programs are only read.
"""
