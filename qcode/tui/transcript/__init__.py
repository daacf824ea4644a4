"""The transcript: everything said and done in a session, as one scrolling column of text.

Read `transcript` first (the widget), then `content` (what was said), `entries` and `cards` (how it looks), `pane`
(where it is on screen) and `markdown`. Only `transcript`, `selection`, `pane` and `palette` know Textual.
Nothing here knows events or models.
"""
