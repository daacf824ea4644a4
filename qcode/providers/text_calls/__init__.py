"""Tool calls as text, for models without native tool calls; used only for models marked `text_tool_calls`.

`provider` wraps any provider: tools become instructions, calls and results in the history become text, and calls as
text in a reply become ordinary calls. Everything except that wrapper is pure. No text of the model is lost: text that
is not a call of a known tool stays text. Read `scanner` next, then `forms`.
"""
