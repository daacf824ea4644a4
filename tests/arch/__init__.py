"""The shape of the code: who imports whom, what a start loads, how large a file may be."""
