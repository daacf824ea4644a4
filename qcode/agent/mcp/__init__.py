"""Tool servers (Model Context Protocol): started, asked for their tools, called, and stopped with the session.

`servers` is the interface for the rest of qcode, `connection` the life cycle of one server, `tools` the tools that a
model is offered, `pins` the approvals of the user. Text of a server is untrusted and grants no permission.
The `mcp` package is imported only in the functions that connect.
"""

SERVER_LOG = "qcode.tool_servers"
"""The name of the logger that gets the log messages of tool servers, for the debug log and `-v`."""
