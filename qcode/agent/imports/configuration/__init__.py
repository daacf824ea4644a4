"""Imports the settings of other programs: tool servers, rules, commands, agents and prompts.

`programs` finds the settings. `servers`, `rules`, `policies` and `prompts` convert them to `findings`. `target`
compares the findings with the configuration of qcode and writes new settings. No server or command is run, and the
files of the other programs are only read.
"""
