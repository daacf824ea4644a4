"""`qcode batch`: the tasks of a file, the processes that run them, here or on a cluster."""
