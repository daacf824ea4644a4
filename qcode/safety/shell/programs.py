"""The table of programs that may run without asking, each with the options under which it only reads. Pure.

Facts are those of the manuals of GNU coreutils, findutils, grep, sed, gawk, diffutils, tar, file, procps, ripgrep, fd,
jq and bash. An option is left out where it writes, runs something, waits, asks the network, or reads a list of files
that nobody judged. Programs that let a project choose what runs (yarn, cargo, go, npm) are not here.
"""

from __future__ import annotations

from qcode.safety.shell import special
from qcode.safety.shell.usage import Program, Role, program

_TEXT = program(whole=special.whole_text, is_inert=True)
_FILTER_FILE: tuple[Role, ...] = ("file",)

_GREP_SHORT = "EFGPivwxclLnHhoqsaIrzZbTU"
_GREP_LONG = (
    "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case invert-match word-regexp "
    "line-regexp count files-with-matches files-without-match line-number with-filename no-filename only-matching "
    "quiet silent no-messages text recursive null-data byte-offset initial-tab null color= colour= color colour "
    "line-buffered binary-files="
)
_GREP_VALUES = (
    "e|regexp f|file:file m|max-count:number A|after-context:number B|before-context:number C|context:number "
    "include exclude exclude-dir exclude-from:file label"
)
_GREP = program(
    _GREP_SHORT,
    _GREP_LONG,
    _GREP_VALUES,
    roles=special.roles_of_grep,
    check=special.check_globs,
    has_number_flag=True,
    is_inert=True,
    is_tame=True,
)
_RG = program(
    "niIlcwvoSsFNHxUpqP0.uab",
    "line-number no-line-number files-with-matches files-without-match count count-matches word-regexp invert-match "
    "only-matching smart-case case-sensitive ignore-case fixed-strings with-filename no-filename line-regexp multiline "
    "multiline-dotall pretty quiet pcre2 null hidden unrestricted files type-list heading no-heading column vimgrep "
    "trim json stats no-messages no-config no-ignore no-ignore-vcs no-ignore-parent text crlf color= passthru "
    "byte-offset line-buffered one-file-system glob-case-insensitive no-ignore-dot no-ignore-global include-zero",
    "e|regexp f|file:file g|glob iglob t|type T|type-not A|after-context:number B|before-context:number "
    "C|context:number m|max-count:number M|max-columns:number d|max-depth:number sort sortr r|replace color "
    "context-separator max-filesize j|threads:number path-separator type-add",
    roles=special.roles_of_rg,
    check=special.check_globs,
)
_LS = program(
    "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1",
    "all almost-all author escape ignore-backups directory classify file-type group-directories-first no-group "
    "human-readable si inode kibibytes dereference numeric-uid-gid literal hide-control-chars quote-name reverse "
    "recursive size full-time context color= color format= sort= time= time-style= indicator-style= quoting-style= "
    "block-size= hyperlink=",
    "I|ignore hide w|width:number T|tabsize:number",
    ("file",),
    is_mild=True,
    check=special.check_ls,
)
_DIFF = program(
    "qsuyiEZbwBacrNpte",
    "brief report-identical-files unified side-by-side ignore-case ignore-tab-expansion ignore-trailing-space "
    "ignore-space-change ignore-all-space ignore-blank-lines text recursive new-file show-c-function color color= "
    "suppress-common-lines minimal speed-large-files strip-trailing-cr left-column",
    "U|unified:number C|context:number W|width:number I|ignore-matching-lines L|label x|exclude",
    most=2,
    roles=special.roles_of_diff,
)
_AWK = program("", "", "F|field-separator v|assign", ("text", "file"), check=special.check_awk, is_ordered=True)
_SUMS = program("bztw", "binary text tag zero", "", _FILTER_FILE, is_tame=True)
_UNPACKERS = ("gzip", "bzip2", "xz", "zstd")
_HEAD = program(
    "qvz",
    "quiet silent verbose zero-terminated",
    "n|lines:number c|bytes:number",
    _FILTER_FILE,
    has_number_flag=True,
    is_mild=True,
)

_READING = {
    "ls": _LS,
    "dir": _LS,
    "cat": program(
        "AbeEnstTuv",
        "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting",
        "",
        _FILTER_FILE,
        is_mild=True,
    ),
    "head": _HEAD,
    "tail": _HEAD,
    "wc": program("clmLw", "bytes chars lines words max-line-length total=", "", _FILTER_FILE, is_mild=True),
    "nl": program(
        "p", "", "b|body-numbering s|number-separator w|number-width:number v n i:number", _FILTER_FILE, is_tame=True
    ),
    "tac": program("", "", "", _FILTER_FILE, is_tame=True),
    "rev": program("", "", "", _FILTER_FILE, is_tame=True),
    "fold": program("bs", "bytes spaces", "w|width:number", _FILTER_FILE),
    "fmt": program("cstu", "", "w|width:number", _FILTER_FILE),
    "expand": program("i", "initial", "t|tabs", _FILTER_FILE),
    "unexpand": program("a", "all first-only", "t|tabs", _FILTER_FILE),
    "cut": program(
        "snz",
        "complement only-delimited",
        "d|delimiter f|fields c|characters b|bytes output-delimiter",
        _FILTER_FILE,
        is_tame=True,
    ),
    "paste": program("sz", "serial", "d|delimiters", _FILTER_FILE),
    "tr": program("cCdst", "complement delete squeeze-repeats truncate-set1", "", ("text",), most=2),
    "column": program("txe", "table", "s|separator o|output-separator c N", _FILTER_FILE),
    "comm": program("123iz", "check-order nocheck-order total", "output-delimiter", _FILTER_FILE, most=2),
    "join": program("iz", "ignore-case header", "t 1:number 2:number j:number a v o e", _FILTER_FILE, most=2),
    "uniq": program(
        "cdDiuz",
        "count repeated unique ignore-case all-repeated",
        "f|skip-fields:number s|skip-chars:number w|check-chars:number",
        _FILTER_FILE,
        most=1,
        is_ordered=True,
    ),
    "sort": program(
        "bdfghiMnRrVsuzcC",
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort month-sort "
        "numeric-sort random-sort reverse version-sort stable unique zero-terminated check check= sort=",
        "k|key t|field-separator S|buffer-size:number parallel:number",
        _FILTER_FILE,
    ),
    "shuf": program("ez", "echo", "n|head-count:number i|input-range", _FILTER_FILE),
    "diff": _DIFF,
    "cmp": program("blsn", "print-bytes verbose silent quiet", "n|bytes:number", _FILTER_FILE, most=2),
    "od": program("abcdfilosxv", "output-duplicates", "A|address-radix t|format N j", _FILTER_FILE, is_tame=True),
    "hexdump": program("bcCdovx", "canonical no-squeezing", "n|length:number s|skip:number", _FILTER_FILE),
    "xxd": program("abeipuE", "", "l|len s|seek c|cols:number g:number", _FILTER_FILE, most=1, is_ordered=True),
    "base64": program("di", "decode ignore-garbage", "w|wrap:number", _FILTER_FILE, most=1),
    "base32": program("di", "decode ignore-garbage", "w|wrap:number", _FILTER_FILE, most=1),
    **dict.fromkeys(("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum"), _SUMS),
    "cksum": program("", "", "", _FILTER_FILE, is_tame=True),
    "sum": program("rs", "", "", _FILTER_FILE),
    "stat": program("Lft", "dereference file-system terse", "c|format printf", _FILTER_FILE, is_mild=True),
    "file": program(
        "bikLhN0r", "brief mime mime-type mime-encoding dereference no-dereference extension", "F", ("file",)
    ),
    "du": program(
        "abchklmsSx0",
        "all apparent-size bytes total human-readable si summarize separate-dirs one-file-system",
        "d|max-depth:number t|threshold exclude B|block-size",
        _FILTER_FILE,
    ),
    "df": program(
        "ahHiklPT",
        "all human-readable si inodes local portability print-type total output=",
        "t|type x|exclude-type B|block-size",
        _FILTER_FILE,
    ),
    "tree": program(
        "adfishpugDFCnxvtcrUNQJX", "dirsfirst gitignore noreport prune du si inodes", "L:number I P", ("file",)
    ),
    "readlink": program("femnqsvz", "canonicalize canonicalize-existing canonicalize-missing", "", _FILTER_FILE),
    "realpath": program(
        "eLmPqsz", "canonicalize-existing strip no-symlinks", "relative-to:file relative-base:file", ("file",)
    ),
    "basename": program("az", "multiple zero", "s|suffix", ("text",), is_mild=True, is_inert=True),
    "dirname": program("z", "zero", "", ("text",), is_mild=True, is_inert=True),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": _RG,
    "find": program(whole=special.whole_find),
    "sed": program(
        "nErsuz",
        "quiet silent regexp-extended separate unbuffered null-data",
        "e|expression",
        ("text", "file"),
        roles=special.roles_of_script,
        check=special.check_sed,
    ),
    **dict.fromkeys(("awk", "gawk", "mawk"), _AWK),
    "jq": program(
        "cneMCrjSsa",
        "compact-output null-input exit-status monochrome-output color-output raw-output join-output sort-keys slurp "
        "tab ascii-output",
        "indent:number",
        ("text", "file"),
        check=special.check_jq,
    ),
    "yq": program("rPC", "prettyPrint colors", "", ("text", "file"), check=special.check_yq),
    **dict.fromkeys(
        ("fd", "fdfind"),
        program(
            "HIisgFap0uq1",
            "hidden no-ignore case-sensitive ignore-case glob regex fixed-strings absolute-path full-path print0 "
            "no-ignore-vcs quiet unrestricted color= strip-cwd-prefix",
            "e|extension t|type d|max-depth:number min-depth:number exact-depth:number E|exclude S|size "
            "changed-within changed-before max-results:number",
            ("text", "file"),
        ),
    ),
    **dict.fromkeys(
        ("bat", "batcat"),
        program(
            "pnA",
            "plain number show-all style= color= decorations=",
            "l|language r|line-range",
            ("file",),
            exact="--paging=never",
        ),
    ),
    **dict.fromkeys(
        ("eza", "exa"),
        program(
            "1lGRTaAdFhgHimnSuUrxDf",
            "oneline long grid recurse tree all almost-all list-dirs classify header group inode links modified "
            "created accessed reverse only-dirs only-files git git-ignore no-permissions no-user no-time no-filesize "
            "icons group-directories-first color= colour= icons= time-style= sort= level= ignore-glob=",
            "L|level:number I|ignore-glob s|sort",
            ("file",),
        ),
    ),
    **dict.fromkeys(("tokei", "scc"), program("", "", "", ("file",))),
    "strings": program("aw", "all", "n|bytes:number t|radix e|encoding", _FILTER_FILE, has_number_flag=True),
    "nm": program("aAgnopruCDS", "demangle extern-only undefined-only dynamic", "", ("file",)),
    "size": program("ABdotx", "totals", "", ("file",)),
    "readelf": program("ahlSstendrVAIW", "all file-header sections symbols dynamic wide", "", ("file",)),
    "iconv": program("cl", "list", "f|from-code t|to-code", _FILTER_FILE),
    "look": program("adf", "", "t|terminate", ("text", "file"), most=2),
    "objdump": program("CdDhfprRtTxw", "disassemble", "j M", ("file",)),
    "shellcheck": program("", "", "f|format s|shell e|exclude i|include S|severity", ("file",)),
    "bc": program("lqsi", "mathlib quiet standard", "", ("file",)),
    "tsort": program("", "", "", ("file",), most=1),
    **dict.fromkeys(("zcat", "bzcat", "xzcat", "zstdcat"), program("", "", "", ("file",), helpers=_UNPACKERS)),
    **dict.fromkeys(
        ("gzip", "xz", "zstd", "bzip2"),
        program("clvdtkq", "list decompress stdout to-stdout test", "", ("file",), check=special.check_unpacker),
    ),
    "gunzip": program("clt", "list stdout to-stdout test", "", ("file",), check=special.check_gunzip),
    "unzip": program("lvZ1pc", "", "", ("file", "text"), check=special.check_unzip, is_ordered=True),
    "zipinfo": program("1smlvhtz", "", "", ("file", "text"), is_ordered=True),
    "tar": program(
        "tvzjJ",
        "list verbose gzip bzip2 xz zstd wildcards",
        "f|file:file strip-components:number exclude",
        ("text",),
        exact="t tv tf tvf tzf tzvf tjf tjvf tJf tJvf ztf ztvf",
        check=special.check_tar,
        roles=special.roles_of_tar,
        helpers=_UNPACKERS,
    ),
}

_TELLING = {
    "whoami": program(),
    "logname": program(),
    "id": program("ugGnrz", "user group groups name real", "", ("text",)),
    "groups": program("", "", "", ("text",)),
    "nproc": program("", "all", "ignore:number"),
    "uname": program("amnrspvio", "all kernel-name nodename kernel-release machine operating-system"),
    "arch": program(),
    "hostname": program("sI", "short all-ip-addresses"),
    "uptime": program("ps", "pretty since"),
    "free": program("bkmghwtl", "human wide total mega giga"),
    "lscpu": program("", ""),
    "tty": program("s"),
    "locale": program("am", "all-locales charmaps"),
    "getconf": program("", "", "", ("text",), most=2),
    "cal": program("13jmy", "", "", ("text",), most=3),
    "printenv": program("", "", "", ("text",), check=special.check_printenv),
    "pgrep": program("acfilnovwx", "list-full list-name", "u|euid P|parent", ("text",), most=1, is_inert=True),
    "pidof": program("s", "", "", ("text",)),
    "pstree": program("aclnpsu"),
    "netstat": program("ltunpaesrn", check=special.check_netstat),
    "vmstat": program("asw"),
    "lsmod": program(),
    "lspci": program("nvk"),
    "lsusb": program("tv"),
    "tput": program("", "", "", ("text",), most=1, check=special.check_tput),
    "whereis": program("bms", "", "", ("text",)),
    "dpkg": program(
        operands=("text",),
        exact="-l --list -s --status -L --listfiles -S --search",
        check=special.check_dpkg,
    ),
    **dict.fromkeys(("pip", "pip3"), program(whole=special.whole_pip)),
    "date": program(
        "uRI", "utc universal rfc-email iso-8601= iso-8601 rfc-3339=", "d|date r|reference:file", ("text",), most=1,
        exact="-Idate -Ihours -Iminutes -Iseconds -Ins", check=special.check_date, is_inert=True,
    ),
    "seq": program("w", "equal-width", "s|separator", ("text",), most=3, check=special.check_numbers),
    "sleep": program("", "", "", ("text",), most=1, check=special.check_sleep),
    "which": program("as", "all", "", ("text",)),
    "ps": program(whole=special.whole_ps),
    "ip": program(whole=special.whole_ip),
    "ss": program("tulnpax460smeoi", "tcp udp listening numeric processes all unix summary"),
    "lsblk": program("abdfilmnoprstJPT", "all bytes fs list json paths", "o|output"),
    "who": program("abdHlmpqrstTu"),
    "w": program("hsfi"),
    "users": program(),
    "expr": program(whole=special.whole_text),
    "factor": program("", "", "", ("number",)),
    "openssl": program(whole=special.whole_openssl),
    "numfmt": program("", "", "to from suffix", ("number",)),
}  # fmt: skip

_BUILTINS = {
    "echo": _TEXT,
    "true": _TEXT,
    "false": _TEXT,
    ":": _TEXT,
    "pwd": program("LP"),
    "type": program("aptP", "", "", ("text",), is_ordered=True),
    "command": program("vV", "", "", ("text",), check=special.check_lookup, is_ordered=True),
    "printf": program(whole=special.whole_printf, is_inert=True),
    "test": program(whole=special.whole_test, is_inert=True),
    "[": program(whole=special.whole_bracket, is_inert=True),
    "[[": program(whole=special.whole_double_bracket, is_inert=True),
    "exit": program("", "", "", ("number",), most=1, is_mild=True),
    "dirs": program(),
    "umask": program("S"),
    "ulimit": program("SHacdefilmnpqrstuv"),
}

PROGRAMS: dict[str, Program] = {**_READING, **_TELLING, **_BUILTINS}
"""By name. `whole` programs read their arguments themselves."""

VERSIONS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("python", "python3", "pypy3"), frozenset({"--version", "-V"})),
    **dict.fromkeys(("node", "ruby", "php"), frozenset({"--version", "-v"})),
    **dict.fromkeys(
        (
            "gcc", "g++", "cc", "c++", "clang", "clang++", "ld", "bash", "zsh", "fish", "make", "cmake", "tar", "git",
            "curl", "wget", "sqlite3", "psql", "mysql", "deno", "ruff", "pip", "pip3", "vim", "emacs", "nano", "gdb",
            "rsync", "zip", "tmux", "pandoc", "protoc", "ninja", "ldd", "docker", "gh", "mypy", "black", "uv", "split",
            "csplit", "rustup", "openssl", "ssh-keygen", "hyperfine", "systemctl", "xargs", "env",
        ),
        frozenset({"--version"}),
    ),
    **dict.fromkeys(("java", "javac"), frozenset({"--version", "-version"})),
    "perl": frozenset({"--version", "-v"}),
    **dict.fromkeys(("ffmpeg", "ffprobe"), frozenset({"-version"})),
    "ssh": frozenset({"-V"}),
    "lua": frozenset({"-v"}),
    **dict.fromkeys((*_READING, *_TELLING), frozenset({"--version", "--help"})),
}  # fmt: skip
"""Programs that print their version without reading a file of the project, and how they are asked."""

WRAPPERS: dict[str, Program] = {
    "timeout": program("v", "preserve-status foreground verbose", "k|kill-after:number s|signal", ("number", "text")),
    "nice": program("", "", "n|adjustment:number", ("text",), has_number_flag=True),
    "nohup": program(operands=("text",)),
    "time": program("p", operands=("text",)),
    "stdbuf": program("", "", "i|input o|output e|error", ("text",)),
    "ionice": program("t", "ignore", "c|class:number n|classdata:number", ("text",)),
}
"""Programs that only run what follows their own options (and, where the first operand is a number, that)."""
