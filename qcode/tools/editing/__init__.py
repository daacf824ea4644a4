"""Tools that change files (`write`, `edit`, `multi_edit`, `apply_patch`), and `diagnostics`, which checks the changes.

Every change is computed completely before a file is touched (`edit`). `match` and `hunks` find the passage that an edit
or a patch changes. If a passage is not found, `normalize` suggests other readings of the edit, for example without
copied line numbers.
"""
