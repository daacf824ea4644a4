"""Runs an agent and records what its client sends: `python tee.py FILE COMMAND...`, a line for each message."""

import os
import subprocess
import sys
import threading

record, command = sys.argv[1], sys.argv[2:]
agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert agent.stdin is not None
assert agent.stdout is not None
out = agent.stdout.fileno()


def copy() -> None:
    while piece := os.read(out, 65_536):
        os.write(1, piece)


reader = threading.Thread(target=copy)
reader.start()
with open(record, "ab") as file:  # it runs without the repository
    for line in sys.stdin.buffer:
        file.write(line)
        file.flush()
        try:
            agent.stdin.write(line)
            agent.stdin.flush()
        except BrokenPipeError:
            break
agent.stdin.close()
reader.join()
sys.exit(agent.wait())
