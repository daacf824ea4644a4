"""OpenAI's Chat Completions protocol, and the many servers that speak it with an accent (`quirks`)."""
