"""Sessions as files for people and programs: Markdown, JSON, HTML. Pure: text in, text out."""
