"""OpenAI's two protocols: Chat Completions, which many servers speak with variations (`quirks`), and Responses."""
