"""Imports the settings of other programs: tool servers, rules, commands, agents and prompts.

`programs` finds the settings, `servers`, `rules`, `policies` and `prompts` convert them to `findings`, and `target`
compares those with the configuration of qcode and writes them. No server or command is run, and the files of the other
programs are only read.
"""
