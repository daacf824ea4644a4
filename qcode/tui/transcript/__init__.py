"""The transcript: the whole session as one scrolling column of text.

Read `transcript` first (the widget), then `content` (the list of entries), `entries` and `cards` (their rows), `pane`
(scrolling and painting) and `markdown`. Only `transcript`, `selection`, `pane` and `palette` import Textual.
`cards` has the interface to which the presenter writes, and `replay` shows a stored conversation.
"""
