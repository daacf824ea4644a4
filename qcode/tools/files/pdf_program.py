"""A separate program that extracts the text of a PDF: run it, never import it.

A malicious PDF can take forever, or all memory. The arguments are the folder of pypdf, the first and last page, and the
maximum number of characters. The PDF is read from standard input. The output is one line of JSON with the number of
pages, then one line for each page: its number, its text, and the number of characters left out of it. An error is the
last line of standard error.
"""

from __future__ import annotations

import io
import json
import logging
import resource
import sys

_MAX_MEMORY_BYTES = 2 * 1024**3
_MAX_CPU_S = 30


def main() -> int:
    folder, first, last, max_chars = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_MAX_CPU_S, _MAX_CPU_S))
    logging.disable(logging.CRITICAL)
    sys.path.append(folder)
    from pypdf import PdfReader

    reader = PdfReader(io.BytesIO(sys.stdin.buffer.read()))
    if reader.is_encrypted and not reader.decrypt(""):
        sys.stderr.write("it is protected by a password\n")
        return 1
    count = len(reader.pages)
    _write_line(count)
    for number in range(first, min(last, count) + 1):
        text = reader.pages[number - 1].extract_text()
        left_out = max(0, len(text) - max_chars)
        text = text[:max_chars]
        max_chars -= len(text)
        _write_line([number, text, left_out])
        if max_chars <= 0:
            break
    return 0


def _write_line(value: object) -> None:
    sys.stdout.write(f"{json.dumps(value)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
