"""Edits as models really send them, each with its expected result: the new file, or the reason for the refusal."""

from __future__ import annotations

from dataclasses import dataclass

PY = "class A:\n    def run(self):\n        if self.ok:\n            go()\n        return 1\n"
TABBED = "func main() {\n\tif ok {\n\t\trun()\n\t}\n}\n"
TWICE = "def a():\n    x = 1\n    return x\n\n\ndef b():\n    x = 1\n    return x\n"


@dataclass(frozen=True)
class Case:
    """An edit. `after` is the complete new file, or None if the edit is refused; `said` is part of the result."""

    name: str
    before: str
    old: str
    new: str
    after: str | None
    said: str = ""
    replaces_all: bool = False
    encoding: str = "utf-8"


EXACT = [
    Case("one word", "a b c\n", "b", "B", "a B c\n", "at line 1"),
    Case("a line and its neighbors", PY, "        return 1\n", "        return 2\n", PY.replace("1", "2")),
    Case("a passage that is deleted", "a\nb\nc\n", "b\n", "", "a\nc\n"),
    Case("lines added behind a line", "a\nb\n", "a\n", "a\na2\n", "a\na2\nb\n"),
    Case("exact wins over a tolerant match", "x\n  x\n", "  x", "  y", "x\n  y\n"),
    Case("a tolerant look-alike does not make it ambiguous", "go()\ngo() \n", "go() ", "run()", "go()\nrun()\n"),
    Case("a backslash n that is in the file", 'print("a\\n")\n', '"a\\n"', '"b\\n"', 'print("b\\n")\n'),
    Case("an entity that is in the file", "<p>a &lt; b</p>\n", "a &lt; b", "a &gt; b", "<p>a &gt; b</p>\n"),
    Case("quotes of the file that are typographic", "say “hi”\n", "“hi”", "“ho”", "say “ho”\n"),
    Case("text that looks like line numbers", "1: a\n2: b\n", "1: a\n2: b", "1: c", "1: c\n"),
    Case("a file without a final newline", "a\nb", "b", "c", "a\nc"),
    Case("text added at an end without newline", "a\nb", "b", "b\nc", "a\nb\nc"),
    Case("a regular expression is plain text", "a.*b (c) [d]\n", "a.*b (c)", "x", "x [d]\n"),
    Case("every occurrence", "x = 1\ny\nx = 1\n", "x = 1", "x = 2", "x = 2\ny\nx = 2\n", "in 2 places", True),
    Case("occurrences that grow", "aa\n", "a", "aa", "aaaa\n", "in 2 places", True),
    Case("occurrences that overlap", "aaa\n", "aa", "b", "ba\n", "", True),
    Case("emoji and east asian text", "# 概要 🎉\nx\n", "概要 🎉", "まとめ", "# まとめ\nx\n"),
    Case(
        "code that was moved within the file",
        "b()\n\n\ndef f():\n    a()\n",
        "def f():\n    a()",
        "f = a",
        "b()\n\n\nf = a\n",
    ),
]
BLANKS = [
    Case("trailing blanks in the file", "a  \nb\t\nc\n", "a\nb\n", "a\nB\n", "a  \nB\nc\n", "trailing whitespace"),
    Case("trailing blanks in the passage", "a\nb\nc\n", "a \nb  \n", "a\nB\n", "a\nB\nc\n", "trailing whitespace"),
    Case("a blank line that holds blanks", "a\n    \nb\n", "a\n\nb", "a\n\nc", "a\n    \nc\n", "trailing whitespace"),
    Case(
        "blanks asked for, tabs there",
        TABBED,
        "    if ok {\n        run()\n",
        "    if ok {\n        stop()\n",
        TABBED.replace("run", "stop"),
        "tabs and spaces in",
    ),
    Case(
        "tabs asked for, blanks there",
        PY,
        "\t\tif self.ok:\n\t\t\tgo()\n",
        "\t\tif self.ok:\n\t\t\tgo()\n\t\t\tgo()\n",
        PY.replace("go()\n", "go()\n            go()\n"),
        "tabs and spaces in",
    ),
    Case(
        "a new depth in tabs",
        TABBED,
        "        run()",
        "        for {\n            run()\n        }",
        TABBED.replace("\t\trun()", "\t\tfor {\n\t\t\trun()\n\t\t}"),
        "tabs and spaces in",
    ),
    Case(
        "a passage dedented as a whole",
        PY,
        "if self.ok:\n    go()\nreturn 1",
        "if self.ok:\n    stop()\nreturn 1",
        PY.replace("go", "stop"),
        "the indentation",
    ),
    Case(
        "a passage indented too far",
        "def f():\n    a()\n    b()\n",
        "        a()\n        b()\n",
        "        a()\n        if x:\n            b()\n",
        "def f():\n    a()\n    if x:\n        b()\n",
        "the indentation",
    ),
    Case(
        "two blanks asked for, four there",
        PY,
        "    if self.ok:\n      go()\n",
        "    if self.ok:\n      go()\n      go()\n",
        PY.replace("go()\n", "go()\n            go()\n"),
        "the indentation",
    ),
    Case(
        "a single line with two blanks for four",
        "if a:\n    b()\nif c:\n    d()\n",
        "  b()\n",
        "  if x:\n    b()\n",
        "if a:\n    if x:\n        b()\nif c:\n    d()\n",
        "the indentation",
    ),
    Case(
        "depths that mean something else are no match",
        "if a:\n    b()\nc()\n",
        "if a:\n    b()\n    c()\n",
        "x\n",
        None,
        "nearest",
    ),
    Case(
        "the first line begins in the middle",
        PY,
        "if self.ok:\n            go()",
        "if self.no:\n            go()",
        PY.replace("self.ok", "self.no"),
    ),
    Case("a newline too much at the end of the file", "a\nb", "b\n", "c\n", "a\nc", "trailing whitespace"),
    Case(
        "blank lines around the passage", "a\nb\nc\n", "\n\nb\n\n", "\n\nB\n\n", "a\nB\nc\n", "without the blank lines"
    ),
    Case("blank lines around the old passage only", "a\nb\nc\n", "\n\nb", "B", "a\nB\nc\n", "without the blank lines"),
    Case(
        "more blanks between words",
        "x   =  compute( a )  # why\n",
        "x = compute( a )",
        "x = compute(b)",
        "x = compute(b)  # why\n",
        "number of spaces",
    ),
    Case(
        "columns that were aligned",
        "a    = 1\nbb   = 2\nccc  = 3\n",
        "a = 1\nbb = 2\n",
        "a    = 10\nbb   = 20\n",
        "a    = 10\nbb   = 20\nccc  = 3\n",
        "number of spaces",
    ),
    Case(
        "kept lines keep their trailing blanks",
        "k  \nx\nl\t\n",
        "k\nx\nl",
        "k\ny\nl",
        "k  \ny\nl\t\n",
        "trailing whitespace",
    ),
    Case("two tolerant places", "a  \nb\na\t\n", "a\n", "A\n", None, "at lines 1, 3"),
    Case(
        "every tolerant place", "\ta()\nb\n\ta()\n", "    a()\n", "    c()\n", "\tc()\nb\n\tc()\n", "in 2 places", True
    ),
    Case("text of only blanks is not a passage", "a\n\n\nb\n", "   \n", "x", None, "nor anything similar"),
]
ENDINGS = [
    Case("CRLF in the file only", "a\r\nb\r\nc\r\n", "a\nb\n", "a\nB\n", "a\r\nB\r\nc\r\n"),
    Case("CRLF in the passage only", "a\nb\nc\n", "a\r\nb\r\n", "a\r\nB\r\n", "a\nB\nc\n"),
    Case("CRLF and trailing blanks", "a \r\nb\r\n", "a\nb", "a\nB", "a \r\nB\r\n", "trailing whitespace"),
    Case("lines added to a CRLF file", "a\r\nb\r\n", "a\n", "a\nn\n", "a\r\nn\r\nb\r\n"),
    Case("mixed endings stay mixed", "a\r\nb\nc\r\n", "b", "B", "a\r\nB\nc\r\n"),
    Case("old Macintosh endings", "a\rb\rc\r", "b\n", "B\n", "a\rB\rc\r"),
    Case("UTF-16", "één\r\ntwee\r\n", "twee", "zwei", "één\r\nzwei\r\n", "", False, "utf-16"),
    Case(
        "a byte order mark before the first line",
        "\ufeffimport os\nx\n",
        "import os\n",
        "import sys\n",
        "\ufeffimport sys\nx\n",
    ),
]
SIGNS = [
    Case(
        "plain quotes for typographic ones",
        "It’s “fine”.\n",
        'It\'s "fine".',
        'It\'s "good".',
        "It’s “good”.\n",
        "the kind of quotes",
    ),
    Case("typographic quotes for plain ones", 'x = "a"\n', "x = “a”", 'x = "b"', 'x = "b"\n', "the kind of quotes"),
    Case(
        "a hyphen for a dash", "pages 3–5 — all\n", "3-5 - all", "3-6 - all", "pages 3–6 — all\n", "the kind of quotes"
    ),
    Case("a plain blank for a no-break one", "10\u00a0km\n", "10 km", "11 km", "11\u00a0km\n", "the kind of quotes"),
    Case(
        "composed for decomposed", "cafe\u0301 au lait\n", "café au lait", "café noir", "cafe\u0301 noir\n", "composed"
    ),
    Case(
        "decomposed for composed",
        "café au lait\n",
        "cafe\u0301 au",
        "cafe\u0301 noir au",
        "café noir au lait\n",
        "composed",
    ),
    Case("three dots for an ellipsis", "wait…\ngo\n", "wait...", "stop...", "stop…\ngo\n", "the kind of quotes"),
    Case(
        "typographic quotes and another depth",
        "    say(“a”)\n    end()\n",
        'say("a")\nend()',
        'say("a")\nstop()',
        "    say(“a”)\n    stop()\n",
        "the kind of quotes",
    ),
    Case("two look-alikes", "a – b\na — b\n", "a - b", "c", None, "at lines 1, 2"),
]
SLIPS = [
    Case("literal line breaks", "a()\nb()\n", "a()\\nb()", "a()\\nc()", "a()\nc()\n", "\\n and \\t decoded"),
    Case(
        "literal line breaks around a quoted one",
        'say("x\\n")\nend()\n',
        'say("x\\n")\\nend()',
        'say("y\\n")\\nend()',
        'say("y\\n")\nend()\n',
        "\\n and \\t decoded",
    ),
    Case("only the old passage is escaped", "a()\nb()\n", "a()\\nb()", "a()\nc()", "a()\nc()\n", "\\n and \\t decoded"),
    Case("escaped quotes", 'x = "a"\n', 'x = \\"a\\"', 'x = \\"b\\"', 'x = "b"\n', "backslashes before its quotes"),
    Case(
        "escaped quotes, a new text that is not",
        'x = "a"\n',
        'x = \\"a\\"',
        'x = "b\\n"',
        'x = "b\\n"\n',
        "backslashes before",
    ),
    Case(
        "escaped quotes, a new text that needs its own",
        'x = "a"\n',
        'x = \\"a\\"',
        'x = "a\\"b"',
        'x = "a\\"b"\n',
        "its quotes",
    ),
    Case(
        "escaped twice",
        'say("a\\n")\nend()\n',
        'say(\\"a\\\\n\\")\\nend()',
        'say(\\"b\\\\n\\")\\nend()',
        'say("b\\n")\nend()\n',
        "escape sequences decoded",
    ),
    Case(
        "backslashes twice",
        're.compile(r"\\d+")\n',
        're.compile(r"\\\\d+")',
        're.compile(r"\\\\w+")',
        're.compile(r"\\w+")\n',
        "each double backslash",
    ),
    Case(
        "a line break inside of quotes",
        'say("a\\n")\n',
        'say("a\n")',
        'say("b\n")',
        'say("b\\n")\n',
        "inside quotes",
    ),
    Case(
        "entities",
        "if a < b && c:\n",
        "if a &lt; b &amp;&amp; c:",
        "if a &gt; b &amp;&amp; c:",
        "if a > b && c:\n",
        "&lt;",
    ),
    Case("entities in the old passage only", "if a < b:\n", "if a &lt; b:", "if a > b:", "if a > b:\n", "&lt;"),
    Case(
        "line numbers of read",
        "one\ntwo\nthree\n",
        "     1\tone\n     2\ttwo",
        "     1\tone\n     2\t2",
        "one\n2\nthree\n",
        "line numbers",
    ),
    Case("line numbers in the old passage only", "one\ntwo\n", "     2\ttwo", "2", "one\n2\n", "line numbers"),
    Case("line numbers with arrows", "one\ntwo\n", "1→one\n2→two", "ONE\nTWO", "ONE\nTWO\n", "line numbers"),
    Case(
        "line numbers say which place is meant",
        TWICE,
        "     7\t    x = 1",
        "     7\t    x = 2",
        "x = 2".join(TWICE.rsplit("x = 1", 1)),
        "line numbers",
    ),
    Case("line numbers that do not count up", "one\ntwo\n", "5: one\n9: two", "x", None, "nearest"),
    Case("a code fence around it", "a\nb\n", "```python\na\n```", "```python\nc\n```", "c\nb\n", "code fence"),
    Case(
        "numbers and another depth",
        "    a()\n    b()\n",
        "1\ta()\n2\tb()",
        "1\ta()\n2\tc()",
        "    a()\n    c()\n",
        "line numbers",
    ),
]
REFUSED = [
    Case("twice", TWICE, "    x = 1\n", "    x = 2\n", None, "at lines 2, 7"),
    Case("the places are shown", TWICE, "    x = 1\n", "    x = 2\n", None, "     6\tdef b():\n     7\t    x = 1"),
    Case("a line that is a little different", PY, "        return 11\n", "x", None, "nearest passage is at line 5"),
    Case(
        "the difference is shown",
        PY,
        "            run()\n        return 1\n",
        "x",
        None,
        "-            run()\n+            go()",
    ),
    Case("a blank line that is not there", "a = 1\nb = 2\n", "a = 1\n\nb = 2", "c", None, "nearest"),
    Case("lines left out", PY, "class A:\n    # ... existing code ...\n        return 1", "x", None, "omit lines"),
    Case(
        "an edit that was made before",
        "value = compute(2)\n",
        "value = compute(1)\n",
        "value = compute(2)\n",
        None,
        "was made before",
    ),
    Case("nothing like it", "a\nb\n", "%%%% ####", "x", None, "nor anything similar"),
    Case("no passage in a file that has text", "a\n", "", "b", None, "old_text is empty"),
    Case("no change", "a\n", "a", "a", None, "identical"),
    Case("another case is another text", "Return = 1\n", "return = 1", "x", None, "nearest passage is at line 1"),
]
EMPTY = [
    Case("an empty file is filled", "", "", "a\nb\n", "a\nb\n"),
    Case("an empty file with a mark keeps it", "\ufeff", "", "a\n", "\ufeffa\n"),
]
CASES = [*EXACT, *BLANKS, *ENDINGS, *SIGNS, *SLIPS, *REFUSED, *EMPTY]
