"""Tools that read and find files: `read`, `ls`, `glob`, `grep`, and the cells of notebooks.

All of them access files through a `Workspace`. `walk` lists a folder as git sees it. `scanner` and `pdf_program` are
separate programs, started by their path: they import nothing from qcode, and no module imports them.
"""
