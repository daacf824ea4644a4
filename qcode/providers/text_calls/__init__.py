"""Calls as text, for models without calls of their own; used only if a model is marked `text_tool_calls`.

`provider` wraps any provider: tools become instructions, calls and results in the history become text, and calls in
the text of a reply become calls. All but that wrapper is pure. Nothing that a model wrote is ever lost: what is no
call of a known tool stays text. Read `scanner` next, then `forms`.
"""
