"""Vertex AI: Gemini and Claude in a Google Cloud project. `address` is pure, `clients` talk to the host."""
