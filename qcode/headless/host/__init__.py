"""Host mode: the control protocol that the SDKs of Claude Code speak to their command line.

It begins with a first input line that is a `control_request` `initialize`. `session` has the conversation, `wire` the
requests to the host, `lines` the output, `approvals` the questions, `requests` the answers to
the host, `link` its tool servers and hooks.
"""
