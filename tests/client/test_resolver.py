"""Both clients with the system's resolver, in namespaces where it asks a name server of the test."""

import sys
from pathlib import Path

import pytest
from tests.client.hostile import ANSWER, HEAD
from tests.harness.processes import completed
from tests.programs import missing, program

# Prints what each client gets for each kind of name.
SCRIPT = """
import asyncio, fcntl, socket, struct, sys, threading
from collections import Counter
from sepu_client import AsyncClient, Client, NoAnswerError, retries

with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 1))  # brings the loopback device up
asked = Counter()

def name_server(receiving):
    while True:
        question, asker = receiving.recvfrom(512)
        asked[question[12:-4]] += 1
        kind = question[13 : 13 + question[12]]
        code = {b"missing": 3, b"empty": 0, b"failing": 2, b"late": 3 if asked[question[12:-4]] <= 2 else 0}[kind]
        is_known = question[-3] == 1 and not code and kind != b"empty"  # an IPv4 address
        address = b"\\xc0\\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) + socket.inet_aton("127.0.0.1")
        head = question[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, is_known, 0, 0)
        receiving.sendto(head + question[12:] + address * is_known, asker)

def service(listener):
    while True:
        connection, _ = listener.accept()
        connection.recv(65536)
        connection.sendall(sys.argv[1].encode())
        connection.close()

receiving = socket.socket(type=socket.SOCK_DGRAM)
receiving.bind(("127.0.0.1", 53))
for serve, by in (name_server, receiving), (service, socket.create_server(("127.0.0.1", 80))):
    threading.Thread(target=serve, args=(by,), daemon=True).start()

async def library(url, deadline):
    async with AsyncClient(url, "sepu_key", deadline=deadline) as client:
        return await client.library()

retries.UNKNOWN_NAME_SECONDS = 0.5
for kind, deadline in ("late", 60), ("missing", 60), ("empty", 60), ("failing", 1):
    for call in (
        lambda url: Client(url, "sepu_key", deadline=deadline).library(),
        lambda url: asyncio.run(library(url, deadline)),
    ):
        try:
            print(call(f"http://{kind}.example{len(asked)}").record_count)
        except NoAnswerError as error:
            print(error.reason.partition(": ")[2].partition("] ")[2], error.may_be_charged)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has namespaces")
def test_names_that_do_not_exist_or_that_come_late(tmp_path: Path) -> None:
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    inside = [program("unshare", "util-linux"), "--map-root-user", "--mount", "--net"]
    if completed([*inside, "true"]).returncode:
        missing("this user may not make namespaces")
    own = ["sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"', str(tmp_path / "resolv.conf")]
    answer = (HEAD + ANSWER).decode()
    done = completed([*inside, *own, sys.executable, "-c", SCRIPT, answer], timeout=50)
    unknown, failing = "Name or service not known", "Temporary failure in name resolution"
    told = [f"{text} False" for text in (unknown, "No address associated with hostname", failing) for _ in range(2)]
    assert (done.stderr, done.stdout.splitlines()) == ("", ["161", "161", *told])
