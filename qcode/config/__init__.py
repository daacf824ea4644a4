"""Settings: files, environment and flags merged into frozen values, with the origin of each kept.

Start at `load.load`; `settings` holds the values and is the one list of keys, `caps` decides which output cap was
asked for, `show` lists everything for a person with secrets hidden. Imports nothing of the other rooms but
`protocol`, and no third-party package but platformdirs, where a folder has to be found.
"""
