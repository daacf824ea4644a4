"""The model catalog: names, facts, corrections, and the script that rebuilds the table."""
