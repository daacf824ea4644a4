"""Tools that read and find files: `read`, `ls`, `glob`, `grep`, and the cells of notebooks.

All of them get their files from a `Workspace`. `walk` lists a folder as git sees it. `scanner` and `pdf_program` are
programs of their own, started by their path: they import nothing of qcode, and nothing imports them.
"""
