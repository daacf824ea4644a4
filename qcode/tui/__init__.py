"""The Textual app: what a person sees and types.

It knows `TurnEvent` values and a `Conversation`, never the engine, a provider or an SDK. Textual is imported in this
room only. Read `app` first (the screen), then `presenter` (events to widget calls) and `commands` (the one table).
"""
