"""Tools that change files (`write`, `edit`, `multi_edit`, `apply_patch`), and `diagnostics`, which checks the changes.

Every change is computed completely before a file is touched (`edit`). `match` and `hunks` find the passage that an edit
or a patch refers to; `normalize` has alternative readings for a passage that is not found.
"""
