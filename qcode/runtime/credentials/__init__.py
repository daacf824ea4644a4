"""Keys that a person stored: in the keyring of the system, or else in a file only they can read.

Start at `store`. Nothing here looks at the environment, knows a provider, or shows a key.
"""
