"""The pages of the project, checked against the program, and the check of their prose."""
