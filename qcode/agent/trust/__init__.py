"""Trust in folders: which folders the user trusts, and with which files."""
