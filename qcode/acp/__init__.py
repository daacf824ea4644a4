"""The agent for editors: `qcode acp` speaks the Agent Client Protocol over standard input and output.

`wire` carries JSON-RPC, `server` has the methods, `session` one conversation, `updates` and `cards` show its turns. The
library loads with the first session, so `initialize` is answered at once.
"""
