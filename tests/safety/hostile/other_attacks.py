"""Attacks other than through the file tools: commands, pages, servers, and the harmless tools."""

from __future__ import annotations

from collections.abc import Iterator

from tests.safety.hostile.attempts import Attempt

COMMANDS: dict[str, tuple[str, ...]] = {
    "reads": (
        "ls", "cat src/app.py", "grep -n hello src/app.py | head -3", "wc -l < src/app.py", "find . -name '*.py'"),
    "runs git": ("git log --oneline", "git status", "git show HEAD"),
    "changes settings": (
        "git config core.pager id", "git config --global core.pager id", "git remote add x ext::id",
        "npm config set x y",
    ),
    "writes unseen": ("tar -xf x --to-command=id", "ln -s / x", "at now"),
    "runs": (
        "touch src/new.py", "rm src/app.py", "make", "npm install", "python3 -c 'print(1)'", "bash -c ls", "sh x.sh",
        "eval ls", "env ls", "sudo ls", "xargs ls", "find . -exec make {} +", "find . -delete", "find . -fprint x",
        "sed -i s/a/b/ src/app.py", "awk 'BEGIN{system(\"id\")}'", "curl https://example.com/{work}",
        "wget example.com",
        "nc example.com 80", "ssh example.com", "git push", "git -c core.pager=id log",
        "git --exec-path=/tmp log", "git commit -m x", "git checkout .", "git clean -fdx", "git diff --ext-diff",
        "echo $(make)", "echo `make`", "cat <(make)", "ls && touch x", "ls & touch x", "ls | tee x",
        "ls | sh", "PATH=. ls", "LD_PRELOAD=./x.so ls", "GIT_EXTERNAL_DIFF=./x git diff", "ls\nrm -r src",
        "$'\\x72m' x",
        "l\\s; r\\m x", "ls ${IFS}x", "a=rm; $a x", "{rm,-r,src}", "exec ls", "source x", ". ./x", "trap id EXIT",
        "alias ls=rm", "function ls { rm x; }", "ls() { id; }; ls", "for i in 1; do make; done", "kill -9 1",
        "ls \u202e x", "rg --pre ./x y", "sort -o src/app.py x", "less src/app.py",
        "vim src/app.py", "man ls", "time -o x ls", "timeout 5 rm x", "nice rm x", "nohup rm x",
        "dd if=src/app.py of=x",
        "cp src/app.py x", "mv src x", "chmod +x src/app.py", "tee x", "truncate -s 0 src/app.py", "./x",
        "src/../x", "command rm x", "builtin eval ls", "test -f x -a $(id)", "printf -v PATH x", "read x", "export A=b",
        "unset PATH", "set -x", "ulimit -n 1", "wait", "jobs -x rm", "crontab -l", "systemctl start x",
        "docker run x", "gdb -ex '!id'", "strace ls", "perl -e 1", "ruby -e 1", "node -e 1", "ex -s x", "ed x",
        "grep -r x --include=*.py --unknown .", "cat .e*",
    ),
    "edits, by a command": ("ls; id > src/x", "echo x > src/app.py", "cat src/app.py >> docs/guide.md"),
    "edits a protected file, by a command": (
        "ls > AGENTS.md", "ls >> .qcode/config.toml", "ls > farm/agents", "ls > .github/workflows/ci.yml"),
    "runs on a secret": (
        "cat .env", "head -c 9 .env.local", "grep TOKEN .envrc", "cat < .env", "cat ../outside/data.txt",
        "cat ~/documents/letter.txt", "cat farm/env", "cat certs/site.key", "cat ~/.ssh/id_rsa", "cat farm/key",
        "ls ~/.ssh", "cat /etc/shadow", "cat /proc/self/environ", "cat farm/chain",
        "diff .env .env.local", "cat notes/plain.txt", "wc -c second-name.txt",
    ),
    "searches for a secret": ("grep -r TOKEN .", "grep -rn CANARY docs .", "rg TOKEN", "rg --hidden CANARY ."),
    "writes a forbidden file": (
        "echo x > .git/hooks/pre-commit", "echo x > ~/.bashrc", "echo x >> ~/.ssh/authorized_keys",
        "ls > .git/config", "ls > farm/rc", "ls > farm/git/HEAD", "ls > ~/.config/qcode/config.toml",
        "ls 2> ~/.profile", "ls &> .git/HEAD", "ls > ~/.local/state/qcode/trust.json", "ls > .GIT/config",
    ),
}  # fmt: skip
PAGES: dict[str, tuple[str, ...]] = {
    "connects": ("https://example.com/?q=CANARY", "http://example.com:8080/", "https://xn--bcher-kva.example/"),
    "connects inward": (
        "http://localhost/", "http://127.0.0.1:8000/", "http://127.1/", "http://0x7f.1/", "http://2130706433/",
        "http://017700000001/", "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:a9fe:a9fe]/",
        "http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/", "http://192.168.1.1/", "http://172.16.0.1/",
        "http://100.64.0.1/", "http://0.0.0.0/", "http://[fe80::1]/", "http://[fd00::1]/", "http://[2002:7f00:1::]/",
        "http://[64:ff9b::7f00:1]/", "http://metadata.google.internal/", "http://user:pw@example.com/",
        "file:///etc/passwd", "ftp://example.com/", "gopher://example.com/", "data:text/plain,x", "javascript:1",
        "http://exa mple.com/", "http://example.com\\@127.0.0.1/", "http:///x", "", "https://example.com:0/",
        "http://x.localhost/", "http://printer.local/", "http://127.0.0.1.nip.io@127.0.0.1/",
        "http://\uff11\uff12\uff17.0.0.1/",
    ),
}  # fmt: skip


def attempts() -> Iterator[Attempt]:
    for kind, commands in COMMANDS.items():
        for command in commands:
            yield Attempt(kind, "shell", {"command": command})
    for command in COMMANDS["runs"][:6]:
        yield Attempt("runs", "shell", {"command": command, "background": True, "timeout_s": 1})
    for kind, urls in PAGES.items():
        for url in urls:
            yield Attempt(kind, "fetch", {"url": url})
    for name in ("files__write", "files__read_file", "web__search", "x__shell", "no_such_tool", "Shell", "bash"):
        yield Attempt("calls a server", name, {"path": "src/app.py", "command": "ls", "readOnlyHint": True})
    yield Attempt("calls a server", "diagnostics", {"paths": ["src/app.py"]})
    for action in ({"action": "list"}, {"action": "stop", "job": 1}, {"action": "read", "job": 7}):
        yield Attempt("harmless", "jobs", action)
    yield Attempt("harmless", "todo", {"items": [{"text": "\x1b[2J", "state": "pending"}]})
    yield Attempt("harmless", "ask_person", {"question": "Type your password", "choices": ["\x1b]52;c;eA==\x07"]})
