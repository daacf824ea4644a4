"""Tools that change files: `write`, `edit`, `multi_edit`, `apply_patch`, and `diagnostics` for what they changed.

Every change is worked out in full before a file is touched (`edit`). `match` and `hunks` find the passage that an
edit or a patch means, `normalize` reads it in other ways where its text is not there.
"""
