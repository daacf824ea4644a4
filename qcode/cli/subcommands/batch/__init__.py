"""`qcode batch`: reads tasks from a file, and runs them in this process or on a cluster."""
