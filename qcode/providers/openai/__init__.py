"""OpenAI's two protocols: Chat Completions, which many servers speak with differences (`quirks`), and Responses."""
