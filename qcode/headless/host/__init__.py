"""Host mode: the control protocol between an SDK of Claude Code and the command line.

Host mode begins if the first input line is the `control_request` `initialize`. `session` runs the conversation, `wire`
sends requests to the host, `lines` builds the output, `approvals` asks for decisions, `requests` answers the host, and
`link` connects its tool servers and hooks.
"""
