"""What nginx does with a request if an instance of the service hangs."""

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.deploy.nginx import behind_nginx
from tests.harness.processes import until
from tests.http.raw import ONE, check_error


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_request_that_was_not_answered_in_time_is_not_sent_to_the_other_instance(tmp_path: Path, method: str) -> None:
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)]
        paths = [tmp_path / "1", tmp_path / "2"]
        for listener, path in zip(listeners, paths, strict=True):
            listener.bind(str(path))
            listener.listen()
            listener.setblocking(False)
        server = stack.enter_context(behind_nginx(*paths, read_seconds=1))
        given = (method, "/v1/search?q=secret") if method == "GET" else (method, "/v1/match")
        headers = {"Content-Type": "application/json", "Authorization": "Bearer secret", "Idempotency-Key": "secret-1"}
        without = stack.enter_context(behind_nginx(tmp_path / "absent"))  # nginx logs this as more severe
        for each in (server, without):
            answer = each.request(*given, headers, b"" if method == "GET" else ONE)
            check_error(answer.status, dict(answer.headers), answer.body, "usage_commit_failed")
            until(each.access_log)
            assert "secret" not in each.access_log() + each.error_log()
        asked = 0
        for listener in listeners:
            try:
                while True:
                    listener.accept()[0].close()
                    asked += 1
            except BlockingIOError:
                pass
    assert asked == 1
