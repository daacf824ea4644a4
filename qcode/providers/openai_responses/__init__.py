"""OpenAI's Responses API, stateless."""
