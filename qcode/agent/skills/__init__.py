"""Skills: folders with a `SKILL.md`, whose instructions a model or the user loads when a task needs them.

Start at `library.Skills`. A skill grants nothing: its scripts run through the ordinary rules, and the skills of a
project are read only after trust. Separate from the rest: a run without skills loads none of this.
"""
