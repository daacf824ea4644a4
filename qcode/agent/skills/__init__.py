"""Skills: folders with a `SKILL.md`, whose instructions a model or the user loads when a task needs them.

Start at `library.SkillLibrary`. A skill grants no permissions: the usual rules judge its scripts. Skills of a project
are read only if the folder is trusted. A run without skills does not load this package.
"""
