"""Small Python programs that try to leave a sandbox. Each prints LEFT if it got out, and TRIED at its end.

They run with `-I -S` in the sandbox; `ARGS` contains facts about the outside.
"""

from __future__ import annotations

RUNNER = """
import ctypes, os, socket, struct, sys
ARGS = sys.argv[1:]
WAYS = {ways}
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *values):
    words = [ctypes.c_long(v) if isinstance(v, int) else v for v in values]
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *words)
    return result, ctypes.get_errno()
def left(*what):
    print("LEFT", name, *what, flush=True)
def change(path=None):
    with open(path or ARGS[0], "r+") as file:
        file.write("LEFT")
    left(path)
def attempt(path):
    try:
        change(path)
    except OSError:
        pass
for name, body in WAYS.items():
    child = os.fork()
    if child == 0:
        try:
            exec(body)
        except OSError as error:
            pass
        except BaseException as error:
            print("BROKEN", name, repr(error), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print("TRIED", name, flush=True)
"""
"""Tries each way in a separate child process."""

WRITES: dict[str, str] = {
    "open": "open(ARGS[0] + '/made', 'w'); left('open')",
    "append": "open(ARGS[0] + '/kept', 'a').write('x'); left('append')",
    "through the root of the process": "open('/proc/self/root' + ARGS[0] + '/made', 'w'); left('root')",
    "through the first process": "open('/proc/1/root' + ARGS[0] + '/made', 'w'); left('first')",
    "through a process outside": "open(f'/proc/{ARGS[1]}/root{ARGS[0]}/made', 'w'); left('process')",
    "through the folder of a process outside": "open(f'/proc/{ARGS[1]}/cwd/made', 'w'); left('cwd')",
    "through an open folder": "d = os.open('/', os.O_PATH); os.open(ARGS[0][1:] + '/made', 65, dir_fd=d); left('fd')",
    "folder": "os.mkdir(ARGS[0] + '/made'); left('mkdir')",
    "link": "os.symlink('x', ARGS[0] + '/made'); left('symlink')",
    "hard link": "os.link(ARGS[0] + '/kept', ARGS[0] + '/made'); left('link')",
    "rename": "os.rename(ARGS[0] + '/kept', ARGS[0] + '/made'); left('rename')",
    "remove": "os.unlink(ARGS[0] + '/kept'); left('unlink')",
    "truncate": "os.truncate(ARGS[0] + '/kept', 0); left('truncate')",
    "pipe": "os.mkfifo(ARGS[0] + '/made'); left('mkfifo')",
    "mode": "os.chmod(ARGS[0] + '/kept', 0o777); left('chmod')",
    "owner": "os.chown(ARGS[0] + '/kept', 1, 1); left('chown')",
    "times": "os.utime(ARGS[0] + '/kept', (1, 1)); left('utime')",
    "extended attribute": "os.setxattr(ARGS[0] + '/kept', 'user.x', b'x'); left('setxattr')",
    "flags of a file": (
        "import fcntl; f = open(ARGS[0] + '/kept'); old = fcntl.ioctl(f, 0x80086601, bytes(8));"
        " fcntl.ioctl(f, 0x40086602, struct.pack('l', struct.unpack('l', old)[0] | 0x40)); left('flags')"
    ),
    "mode of an open file": "f = os.open(ARGS[0] + '/kept', 0); os.fchmod(f, 0o777); left('fchmod')",
}
"""Changes in the folder ARGS[0], which holds the file `kept`; ARGS[1] is a process outside with that folder."""

KERNEL: dict[str, str] = {
    "mount": "call(165, b'none', b'/usr', b'no such type', 0, 0)[1] != 1 and left('mount')",
    "bind": "call(165, b'/usr', b'/etc/passwd', 0, 0x1000, 0)[1] != 1 and left('bind')",
    "unmount": "call(166, b'/etc/passwd', 0)[1] != 1 and left('umount')",
    "open_tree": "call(428, -100, b'/', 1)[0] >= 0 and left('open_tree')",
    "fsopen": "call(430, b'tmpfs', 0)[0] >= 0 and left('fsopen')",
    "user namespace": "libc.unshare(0x10000000) == 0 and left('unshare')",
    "mount namespace": "libc.unshare(0x20000) == 0 and left('unshare')",
    "user namespace of a child": "call(56, 0x10000011, 0, 0, 0, 0)[0] >= 0 and left('clone')",
    "chroot": "os.chroot('/usr'); left('chroot')",
    "host name": "n = os.uname().nodename.encode(); call(170, n, len(n))[1] != 1 and left('sethostname')",
    "domain name": "call(171, b'', 9999)[1] != 1 and left('setdomainname')",
    "io_uring": "call(425, 1, ctypes.create_string_buffer(200))[0] >= 0 and left('io_uring')",
    "keyring": "call(250, 0, -3, 1)[0] >= 0 and left('keyctl')",
    "bpf": "call(321, 0, ctypes.create_string_buffer(128), 128)[0] >= 0 and left('bpf')",
    "userfaultfd": "call(323, 1)[0] >= 0 and left('userfaultfd')",
    "switches of the kernel": "open('/proc/sys/vm/panic_on_oom', 'w'); left('sysctl')",
    "core pattern": "open('/proc/sys/kernel/core_pattern', 'r+'); left('core_pattern')",
    "memory": "open('/dev/mem', 'rb'); left('mem')",
    "clock": "call(164, 0, 0)[1] != 1 and left('settimeofday')",
    "speed of the clock": "call(159, struct.pack('Ixxxx25q', 0x4000, *[0] * 25))[1] != 1 and left('adjtimex')",
    "disk": (
        "p = '/tmp/qcode-test-disk'; os.mknod(p, 0o60600, os.makedev(254, 0)); f = os.open(p, 0); os.unlink(p);"
        " left('disk')"
    ),
    "handle": "call(304, -100, ctypes.create_string_buffer(128), 0)[1] != 1 and left('handle')",
    "terminal input": "import fcntl; fcntl.ioctl(0, 0x5412, b'x'); left('TIOCSTI')",
    "reboot": "call(169, 0xfee1dead, 672274793, 1, 0)[1] != 1 and left('reboot')",
    "capabilities": (
        "head = struct.pack('=Ii', 0x20080522, 0); data = ctypes.create_string_buffer(24);"
        " call(125, head, data); any(data.raw) and left('capabilities')"
    ),
}
"""Ways to change the machine, with arguments that change nothing: a call that is not refused fails otherwise.

Landlock has no namespace, so a defect would change the machine that runs the test. The numbers are those of x86_64.
"""

SOCKETS: dict[str, str] = {
    "unix path": "socket.socket(socket.AF_UNIX).connect(ARGS[0]); left('unix')",
    "unix datagram": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', ARGS[1]); left('dgram')",
    "unix abstract": "socket.socket(socket.AF_UNIX).connect('\\0' + ARGS[2]); left('abstract')",
    "unix socket at all": "socket.socket(socket.AF_UNIX); left('socket')",
    "pair of datagrams": "a, b = socket.socketpair(1, socket.SOCK_DGRAM); a.sendto(b'x', ARGS[1]); left('pair')",
    "pair of datagrams with flags": "socket.socketpair(1, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC); left('pair')",
    "raw pair": "socket.socketpair(1, socket.SOCK_RAW); left('raw pair')",
    "connected pair": "a, b = socket.socketpair(); a.connect(ARGS[0]); left('connect')",
    "tcp": "socket.create_connection(('127.0.0.1', int(ARGS[3])), 5); left('tcp')",
    "udp": ("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'LEFT', ('127.0.0.1', int(ARGS[4])))"),
    "vsock": "socket.socket(40, socket.SOCK_STREAM); left('vsock')",
    "alg": "socket.socket(38, socket.SOCK_SEQPACKET); left('alg')",
    "packet": "socket.socket(17, socket.SOCK_RAW); left('packet')",
}
"""Ways to a service outside: ARGS are the paths of a stream and a datagram socket, an abstract name, two ports."""

PROCESSES: dict[str, str] = {
    "signal": "os.kill(int(ARGS[0]), 9)",
    "signal to the group": "os.killpg(int(ARGS[0]), 9)",
    "pidfd": "import signal; signal.pidfd_send_signal(os.pidfd_open(int(ARGS[0])), 9)",
    "trace": "libc.ptrace(16, int(ARGS[0]), 0, 0) == 0 and left('ptrace')",
    "memory of a process": (
        "b = ctypes.create_string_buffer(8); v = struct.pack('PN', ctypes.addressof(b), 8);"
        " call(310, int(ARGS[0]), v, 1, v, 1, 0)[1] not in (1, 3, 38) and left('process_vm')"
    ),
    "environment": "b'CANARY' in open(f'/proc/{ARGS[0]}/environ', 'rb').read() and left('environ')",
    "memory file": "open(f'/proc/{ARGS[0]}/mem', 'rb'); left('mem')",
    "descriptors": "os.listdir(f'/proc/{ARGS[0]}/fd') and left('fd')",
    "limits": "import resource; resource.prlimit(int(ARGS[0]), resource.RLIMIT_NOFILE, (8, 8)); left('prlimit')",
    "shared memory": "call(29, int(ARGS[1]), 1, 0o600)[0] >= 0 and left('shm')",
}
"""Ways to a process outside, ARGS[0], and to a segment of shared memory with the key ARGS[1]."""


LIFTS: dict[str, str] = {
    "unmount": "libc.umount2(ARGS[0].encode(), 2) == 0 and change()",
    "unmount everything": "[libc.umount2(l.split()[4].encode(), 2) for l in open('/proc/self/mountinfo')]; change()",
    "remount": "libc.mount(None, ARGS[0].encode(), None, 0x1020, None); change()",
    "remount the root": "libc.mount(None, b'/', None, 0x1020, None); change()",
    "bind the folder without its mounts": (
        "os.makedirs(ARGS[1] + '/b', exist_ok=True); libc.mount(os.path.dirname(ARGS[0]).encode(),"
        " (ARGS[1] + '/b').encode(), None, 0x1000, None); change(ARGS[1] + '/b/' + os.path.basename(ARGS[0]))"
    ),
    "user namespace": (
        "uid = os.getuid(); libc.unshare(0x10020000); libc.mount(None, b'/', None, 0x44000, None);"
        " libc.umount2(ARGS[0].encode(), 2); libc.mount(None, ARGS[0].encode(), None, 0x1020, None); change()"
    ),
    "bind in a user namespace": (
        "libc.unshare(0x10020000); libc.mount(None, b'/', None, 0x44000, None);"
        " os.makedirs(ARGS[1] + '/b', exist_ok=True); libc.mount(os.path.dirname(ARGS[0]).encode(),"
        " (ARGS[1] + '/b').encode(), None, 0x1000, None); change(ARGS[1] + '/b/' + os.path.basename(ARGS[0]))"
    ),
    "root of a process outside": "change('/proc/' + ARGS[2] + '/root' + ARGS[0])",
    "root of the first process": "change('/proc/1/root' + ARGS[0])",
    "root of every process": "[attempt(f'/proc/{p}/root{ARGS[0]}') for p in os.listdir('/proc') if p.isdigit()]",
    "folder of a process outside": "change('/proc/' + ARGS[2] + '/cwd/' + os.path.basename(ARGS[0]))",
    "namespace of a process outside": (
        "f = os.open('/proc/' + ARGS[2] + '/ns/mnt', 0); call(308, f, 0x20000); change()"
    ),
    "trace a process outside": "libc.ptrace(16, int(ARGS[2]), 0, 0) == 0 and left('ptrace')",
    "handle": (
        "h = ctypes.create_string_buffer(struct.pack('Ii', 120, 0) + bytes(120)); m = ctypes.c_int();"
        " call(303, -100, ARGS[0].encode(), h, ctypes.byref(m), 0); d = os.open('/', 0);"
        " call(304, d, h, 2)[0] >= 0 and left('handle')"
    ),
    "disk": "[open(d, 'rb+') and left(d) for d in ('/dev/vda', '/dev/sda', '/dev/mem') if os.path.exists(d)]",
    "new node of the disk": (
        "n = os.stat(ARGS[0]).st_dev; os.mknod(ARGS[1] + '/node', 0o60600, n);"
        " open(ARGS[1] + '/node', 'rb'); left('node')"
    ),
    "core pattern": "open('/proc/sys/kernel/core_pattern', 'r+'); left('core_pattern')",
    "uevent helper": "open('/sys/kernel/uevent_helper', 'r+'); left('uevent_helper')",
    "chroot": "os.chroot(ARGS[1]); os.chroot('../../../../..'); change()",
    "become another user": "os.setuid(12345); change()",
}
"""Ways to write the protected file ARGS[0]; ARGS[1] is a folder to work in, ARGS[2] a process outside in its folder."""


def program(ways: dict[str, str]) -> str:
    return RUNNER.replace("{ways}", repr(ways))
