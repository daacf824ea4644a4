"""The client of tool servers (Model Context Protocol): starts them, lists and calls their tools, and stops them.

Start at `servers`, the interface for other packages. `connection` has the life cycle of one server, `questions` asks
the user for it, `tools` converts tools and results, `pins` stores the approvals of the user. Text of a server is
untrusted and grants no permission. The `mcp` package is imported only in the functions that connect.
"""

SERVER_LOG = "qcode.tool_servers"
"""The name of the logger that gets the log messages of tool servers, for the debug log and `-v`."""
