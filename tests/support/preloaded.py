"""Start `androstep` from shell scripts without paying for its imports at every call.

Importing the package takes half a second of a processor, ten times as long as most commands do. `program` starts a
server that has imported it and makes a program `androstep` that passes its arguments, environment, working directory
and standard streams to the server. The server forks; the fork runs the command, and ends as the real program does.
"""

from __future__ import annotations

import ast
import importlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_BYTES = 1 << 20

CLIENT = """\
#!{python} -IS
import os, socket, sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({address!r})
    call = repr((sys.argv[1:], dict(os.environ), os.getcwd()))
    socket.send_fds(server, [call.encode()], [0, 1, 2])
    status = int(server.recv(16))
sys.exit(status if status >= 0 else 128 - status)
"""


@contextmanager
def program() -> Iterator[Path]:
    """Make a program `androstep` that works while the context lasts, and return its path."""
    with (
        tempfile.TemporaryDirectory() as directory,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
    ):
        path, address = Path(directory, "androstep"), str(Path(directory, "server"))
        path.write_text(CLIENT.format(python=sys.executable, address=address))
        path.chmod(0o755)
        listener.bind(address)
        listener.listen()
        server = [sys.executable, __file__, str(listener.fileno())]
        with subprocess.Popen(server, stdin=subprocess.PIPE, pass_fds=[listener.fileno()]):
            listener.close()  # a call fails, instead of waiting, if the server has ended
            yield path


def _serve(listener: socket.socket) -> None:
    """Accept calls until standard input is closed; return only in forks, with all that was passed to them."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that no fork remains as a zombie
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        with connection:
            if not os.fork():
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                return _answer(connection)
    sys.exit()


def _answer(connection: socket.socket) -> None:
    """Fork once more, and send the status with which the fork ends; return in the fork."""
    call, streams, _, _ = socket.recv_fds(connection, MOST_BYTES, 3)
    if pid := os.fork():
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        connection.send(str(status).encode())
        os._exit(0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = (  # the old objects have cached whether the previous stream could seek
        open(number, mode, closefd=False)  # noqa: SIM115
        for number, mode in enumerate("rww")
    )
    arguments, environment, directory = ast.literal_eval(call.decode())
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.argv = ["androstep", *arguments]


if __name__ == "__main__":
    del sys.path[0]  # the directory of this file
    from androstep_analysis import cli

    for name in cli.COMMANDS:
        importlib.import_module(f"androstep_analysis.commands.{name.replace('-', '_')}")
    _serve(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(cli.main())
