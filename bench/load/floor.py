"""The floors: pgbench with the service's own statement, and the service's own worker answering a constant."""

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.load.figures import Sample

from sepu.database.embedded.programs import programs
from sepu.http.responder import SEND
from sepu.library.release import load_release
from sepu.server.gunicorn import Server, Settings
from sepu.server.request_log import RequestLog

REQUEST_ID = "00000000-0000-4000-8000-000000000000"


def pgbench(url: str, weighted: Mapping[str, tuple[str, int]], connections: int, seconds: float) -> Sample:
    """Runs one prepared script per transaction: what a client in C gets from this database."""
    with tempfile.TemporaryDirectory(prefix="sepu-load-") as name:
        directory = Path(name)
        scripts: list[str] = []
        for kind, (script, weight) in weighted.items():
            path = directory / kind
            path.write_text(script)
            scripts += ["-f", f"{path}@{weight}"]
        command = [
            str(programs() / "pgbench"), "--no-vacuum", "--protocol=prepared", "--log", f"--log-prefix={directory}/log",
            f"--client={connections}", "--jobs=1", f"--time={max(1, round(seconds))}", *scripts, url,
        ]  # fmt: skip
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise RuntimeError(f"pgbench: {ended.stderr.strip()}")
        # A line per transaction: client, number, microseconds, script, and when it ended: seconds, microseconds.
        rows = [line.split() for log in directory.glob("log.*") for line in log.read_text().splitlines()]
    done = [(int(row[2]) / 1e6, int(row[4]) + int(row[5]) / 1e6) for row in rows if row[2] != "failed"]
    if not done:
        raise RuntimeError("pgbench did nothing")
    took = max(end for _, end in done) - min(end - late for late, end in done)
    errors = Counter({"failed": len(rows) - len(done)} if len(rows) > len(done) else {})
    return Sample(took, len(done), sorted(late for late, _ in done), errors)


class Constant(Server):
    """The service's gunicorn, worker and settings; the application answers what `GET /v1/library` does."""

    def load(self) -> Callable[..., Any]:
        """Called by gunicorn in each worker."""
        reply = self._service.library._reply

        def app(environ: Mapping[str, Any], _: object) -> tuple[bytes, ...]:
            environ[SEND](reply, REQUEST_ID)
            return ()

        return app


if __name__ == "__main__":
    given = dict(zip(sys.argv[2::2], sys.argv[3::2], strict=True))  # what `sepu serve` would be given
    settings = Settings(f"127.0.0.1:{given['--port']}", int(given["--workers"]), "uvloop", "")
    Constant(settings, load_release(), RequestLog("auto", requests=False)).run()
