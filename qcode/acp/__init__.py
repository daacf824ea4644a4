"""The agent for editors: `qcode acp` speaks the Agent Client Protocol over standard input and output.

`wire` implements JSON-RPC, `server` has the methods, `session` runs one conversation, and `updates` and `cards` send
its turns to the editor. `session_list` lists the stored sessions. The library loads with the first session, so
`initialize` is answered at once.
"""
