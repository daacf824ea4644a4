"""Tool servers (Model Context Protocol): started, asked for their tools, called, and ended with the session.

`servers` is what the rest of qcode sees, `connection` the life of one server, `tools` what a model is offered, `pins`
what the user approved. What a server says is foreign text: it grants nothing and decides nothing.
The `mcp` package is imported only inside the functions that connect.
"""
