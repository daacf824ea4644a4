"""Sessions as Markdown, JSON and HTML."""
