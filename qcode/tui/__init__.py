"""The Textual app: everything the user sees and types.

It uses `TurnEvent` values and a `Conversation`, never the engine, a provider or an SDK. Only this package imports
Textual. Read `app` first (the screen), then `presenter` (events to widget calls) and `commands` (the table of
commands).
"""
