"""The runtime: sessions on disk, the briefing of the model, and the loop that performs effects."""
