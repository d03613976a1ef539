"""The image's HEALTHCHECK: whether the service answers where its environment says that it listens.

It asks /healthz, not /readyz: a restart does not help a service that waits for its database.
"""

import os
import socket
import sys

bind, port = os.environ.get("SEPU_BIND", ""), os.environ.get("SEPU_PORT", "")
if "://" in port:  # Kubernetes's, of a Service called sepu
    port = ""
with socket.socket(socket.AF_UNIX if bind else socket.AF_INET) as connection:
    connection.settimeout(2)
    connection.connect(bind.removeprefix("unix:") or ("127.0.0.1", int(port or 8000)))
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    sys.exit(connection.recv(12, socket.MSG_WAITALL) != b"HTTP/1.1 200")
