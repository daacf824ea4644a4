"""Keys that the user stored: in the keyring of the system, or else in a private file. Start at `keys`."""
