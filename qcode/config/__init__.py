"""Settings: files, environment and flags merged into frozen values, with the origin of each kept.

Start at `load.load`. `settings` has the values and the list of all keys, `edit` changes a file, and `show` lists all
settings with secrets hidden. `folder_rules` stores the rules that the user saved for a folder. `engine.caps` determines
the requested output cap. This package imports only `protocol`, `text`, and one third-party package: platformdirs, to
find folders.
"""
