"""Tests of the transcript widget: the Markdown renderer by its rows, the widget through a small app."""
