"""The other deployment files: run where that is possible here, otherwise read."""

import os
import re
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import tomllib
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import msgspec
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from standardwebhooks.webhooks import Webhook
from tests.endpoint import endpoint
from tests.harness.processes import completed, running
from tests.harness.proxy import socket_directory
from tests.harness.serving import SEPU, free_port, serving
from tests.metrics import samples
from tests.programs import program

from sepu import limits
from sepu.admin import accounts
from sepu.admin.plans import set_plan
from sepu.cli.console import console
from sepu.cli.serve import serve
from sepu.database.embedded import embedded_postgres
from sepu.database.embedded.programs import programs
from sepu.database.opening import connect
from sepu.database.roles import granted_roles, not_of_purpose, read_open_rights
from sepu.http.request import CONTENT_LENGTH, READ, environ_name

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
NGINX = (DEPLOY / "nginx" / "nginx.conf").read_text()
ROLES = ("owner", "service", "console", "events", "accounts")
# Settings that name a file. The images of others, which cannot run here, ignore any other name.
READ_AS_FILES = {"PGSERVICEFILE", "SEPU_EVENTS_SECRET_FILE", "POSTGRES_PASSWORD_FILE", "DATA_SOURCE_PASS_FILE"}
READ_AS_FILES |= {"GF_SECURITY_ADMIN_PASSWORD__FILE"}


def test_nginx_passes_every_header_that_the_service_reads() -> None:
    passed = re.findall(r"proxy_set_header (\S+) ", NGINX)
    assert {*READ} - {CONTENT_LENGTH} <= {*map(environ_name, passed)}  # nginx sets that itself


def test_nginx_knows_every_route() -> None:
    from sepu.http.routes import ALLOW

    (pattern,) = re.findall(r'"~(\S+)" \$known;', NGINX)
    listed = NGINX[NGINX.index("map $route $allow") :].partition("}")[0]
    allow = dict(re.findall(r'^ {8}(\S+) "?([^";]*)"?;$', listed, re.MULTILINE))
    for route, methods in ALLOW.items():
        assert re.match(pattern.replace("?<known>", "?P<known>"), route), route
        assert allow.get(route, allow["default"]) == methods


# --- containers


def compose() -> dict[str, Any]:
    found: dict[str, Any] = msgspec.yaml.decode((ROOT / "compose.yaml").read_bytes())
    return found


def test_containers_can_do_little() -> None:
    services = compose()["services"]
    for name, service in services.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "mem_limit" in service, name
        assert not re.search(r"[ug]id=", str(service.get("tmpfs"))), f"{name}: Podman does not take these options"
        assert service["user"] not in {"root", "0"}, name
        assert re.search(r":v?\d", service["image"]) or service["build"]["context"] == ".", name
        assert "privileged" not in service, name
        environment = service.get("environment", {})
        assert "password=" not in str(environment), name
        read = {key: value for key, value in environment.items() if str(value).startswith("/run/secrets/")}
        mounted = {one if isinstance(one, str) else one["target"] for one in service.get("secrets", ())}
        assert {Path(value).name for value in read.values()} <= mounted, name
        assert read.keys() <= READ_AS_FILES, name
    ports = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert ports == {
        "nginx": ["443:443"],
        **{name: [f"127.0.0.1:{port}:{port}"] for name, port in (("grafana", 3000), ("console", 8010))},
    }
    assert compose()["networks"]["database"] == {"internal": True}
    reached = {name: service["networks"] for name, service in services.items() if service["networks"] != ["database"]}
    # An internal network leads to no receiver of webhooks, and Docker publishes none of its ports.
    both = {name: ["database", "public"] for name in ("console", "events", "grafana")}
    assert reached == {"nginx": ["public"], **both}
    # Postgres listens on all addresses only in a container; on a machine that would expose it.
    assert "listen_addresses=*" in services["postgres"]["command"]
    assert "--host=127.0.0.1" in services["postgres"]["healthcheck"]["test"]  # the first start's has only a socket
    settings = (DEPLOY / "postgres" / "sepu.conf").read_text()
    assert not re.search("^(listen_addresses|wal_compression)", settings, re.MULTILINE)
    for name in ("service-1", "service-2"):
        assert int(services[name]["stop_grace_period"].removesuffix("s")) > limits.workers.GRACEFUL_SECONDS
        path = services[name]["environment"]["SEPU_BIND"]
        assert f"server {path} " in NGINX


def test_each_role_has_a_user_and_a_password_of_its_own() -> None:
    users: dict[str, set[str]] = {}
    for service in compose()["services"].values():
        if service["image"] == "sepu":
            (role,) = [one["source"] for one in service["secrets"] if isinstance(one, dict)]
            users.setdefault(role, set()).add(service["user"])
    numbers = {role: [user.partition(":")[0] for user in found] for role, found in users.items()}
    roles = ("service", "console", "events", "owner", "accounts")
    assert numbers == {role: [str(number)] for number, role in enumerate(roles, 10001)}
    names = re.search(r"for user in ([a-z -]+);", (ROOT / "Dockerfile").read_text())
    assert names is not None
    assert len(names[1].split()) == len(numbers)
    script, own = (DEPLOY / "postgres" / "roles.sh").read_text(), [(role, role) for role in (*ROLES, "monitor")]
    assert re.findall(r"^(\w+)=\$\((?:password |cat /run/secrets/)(\w+)\)$", script, re.MULTILINE) == own
    assert re.findall(r'^set_password sepu_(\w+) "\$(\w+)"$', script, re.MULTILINE) == own


def test_prometheus_and_grafana_find_what_they_ask() -> None:
    services = compose()["services"]
    settings = msgspec.yaml.decode((DEPLOY / "prometheus" / "prometheus.yml").read_bytes())
    assert max(int(every.removesuffix("s")) for every in settings["global"].values()) <= 30  # alerts ask for [2m]
    scraped = settings["scrape_configs"]
    jobs = {job["job_name"]: {target for one in job["static_configs"] for target in one["targets"]} for job in scraped}
    for target in set().union(*jobs.values()):
        name, _, port = target.partition(":")
        assert services["prometheus"]["networks"] == services[name]["networks"]
        bind = services[name].get("environment", {}).get("SEPU_METRICS_BIND")
        assert bind in {None, f"0.0.0.0:{port}"}
    assert jobs["sepu"] == {f"service-{number}:9391" for number in (1, 2)}
    asking = [(DEPLOY / name).read_text() for name in ("prometheus/alerts.yml", "grafana/sepu.json")]
    assert set(re.findall(r'job=\\?"(\w+)', "".join(asking))) == {"sepu"}
    provisioned = DEPLOY / "grafana" / "provisioning"
    (source,) = msgspec.yaml.decode((provisioned / "datasources" / "prometheus.yml").read_bytes())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = msgspec.yaml.decode((provisioned / "dashboards" / "sepu.yml").read_bytes())["providers"]
    mounts = [volume.split(":") for volume in services["grafana"]["volumes"] + services["prometheus"]["volumes"]]
    assert f"{provider['options']['path']}/sepu.json" in [mount[1] for mount in mounts]
    assert [mount[0] for mount in mounts if mount[0].startswith(".") and not (ROOT / mount[0]).exists()] == []
    read = services["node-exporter"]
    for written in (services["audit"], services["events"]):
        assert written["volumes"][0].partition(":")[0] == read["volumes"][0].partition(":")[0]
        assert written["command"][-1].startswith(written["volumes"][0].partition(":")[2])
        assert read["user"].endswith(f":{written['user'].partition(':')[2]}")  # its group may read the directory


def test_the_image_copies_admitted_files() -> None:
    """Without Docker: copied files exist, .dockerignore admits them, and nothing starts as root."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    admitted = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    readme = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["readme"]
    assert f"COPY {readme} " in text  # the build needs it
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE):
        for source in [word for word in line.split() if not word.startswith("--")][:-1]:
            path = source.replace("${REQUIREMENTS}", "server")
            assert (ROOT / path).exists(), path
            assert any(path == one or path.startswith(f"{one}/") for one in admitted), path
    assert (ROOT / "requirements" / "embedded.txt").exists()
    given = {*re.findall(r"--build-arg (\w+)=", text), *compose()["services"]["service-1"]["build"]["args"]}
    compiling = text[text.index("\nFROM ") : text.index("pip wheel --no-deps")]
    assert given == set(re.findall(r"^ARG (\w+)=", compiling, re.MULTILINE))
    final = text[text.rindex("\nFROM ") :]
    assert re.findall(r"^USER (\d+):(\d+)$", final, re.MULTILINE) == [("10001", "10001")]
    assert "SEPU_HOST=0.0.0.0" in final.split(), "on another address, nobody outside the container reaches it"
    modes = {path: int(mode, 8) for mode, path in re.findall(r"--mode (\d+) (/\S+)", final)}
    assert modes["/var/lib/sepu"] & stat.S_ISVTX, "each user can replace only its own metrics"
    assert not any(mode & stat.S_IRWXO for mode in modes.values())
    assert re.findall(r"^(?:ENTRYPOINT|CMD) \[", final, re.MULTILINE) == ["ENTRYPOINT [", "CMD ["]
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"python:3.13-slim-bookworm"}


@pytest.mark.parametrize("unix", [False, True])
def test_the_health_check(tmp_path: Path, unix: bool) -> None:
    command = [sys.executable, "-I", str(DEPLOY / "docker" / "healthcheck.py")]
    with socket.socket(socket.AF_UNIX if unix else socket.AF_INET) as listening:
        listening.bind(str(tmp_path / "socket") if unix else ("127.0.0.1", 0))
        listening.listen()
        listening.settimeout(30)
        address = listening.getsockname()
        environment = {"SEPU_BIND": f"unix:{address}"} if unix else {"SEPU_PORT": str(address[1])}
        for answer, healthy in ((b"HTTP/1.1 200 OK", True), (b"HTTP/1.1 503 Service Unavailable", False), (b"", False)):
            with running(command, env=environment, stderr=subprocess.DEVNULL) as check:
                connection, _ = listening.accept()
                with connection:
                    assert connection.recv(1000).startswith(b"GET /healthz HTTP/1.1\r\nHost: ")
                    connection.sendall(answer)
                assert (check.wait(30) == 0) is healthy, answer
    assert completed(command, env=environment).returncode != 0


# --- secrets, and the roles of the database


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    program("openssl", "openssl")
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    subprocess.run([tmp_path / "deploy" / "make-secrets.sh", "colours.example"], check=True, cwd="/")
    return tmp_path / "secrets"


def test_secrets_are_made_once(secrets: Path) -> None:
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    assert all(path.stat().st_mode & stat.S_IROTH for path in secrets.rglob("*"))  # for the containers' users
    made = [str(secrets / Path(one["file"]).name) for one in compose()["secrets"].values()]
    texts = [Path(path).read_text() for path in made]
    passwords = re.findall(r"(?:^|password=)([0-9a-f]{48})$", "\n".join(texts), re.MULTILINE)
    assert len(set(passwords)) == len(passwords) == len(texts) - 1 == 8
    asked = ["x509", "-in", str(secrets / "tls" / "fullchain.pem"), "-noout", "-checkhost", "colours.example"]
    assert "does match" in completed([program("openssl", "openssl"), *asked]).stdout
    Webhook((secrets / "hooks").read_text().strip())  # refuses a malformed secret
    again = completed([secrets.parent / "deploy" / "make-secrets.sh"])
    assert again.returncode != 0
    assert "nothing was changed" in again.stderr
    assert [Path(path).read_text() for path in made] == texts
    assert "/secrets/" in (ROOT / ".gitignore").read_text().splitlines()


@pytest.mark.parametrize("fault", ["no openssl", "openssl fails", "a full disk", "a signal"])
def test_secrets_that_cannot_be_made_leave_nothing(tmp_path: Path, fault: str) -> None:
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "dirname", "mktemp", "mkdir", "rm", "tr", "grep", "cat", "mv", "chmod", "openssl"):
        (programs / name).symlink_to(program(name, name))
    if fault != "a full disk":
        (programs / "openssl").unlink()
    if fault == "openssl fails":
        (programs / "openssl").symlink_to(program("false", "coreutils"))
    if fault == "a signal":
        (programs / "openssl").write_text(
            f'#!/bin/sh\ntest "$1" = req || exec {program("openssl", "openssl")} "$@"\nkill -TERM $PPID\n'
        )
        (programs / "openssl").chmod(0o755)
    limit = ["/bin/sh", "-c", 'ulimit -f 0; trap "" XFSZ; exec "$@"', "sh"] if fault == "a full disk" else []
    failed = completed([*limit, tmp_path / "deploy" / "make-secrets.sh"], env={"PATH": str(programs)})
    assert failed.returncode != 0
    assert failed.stderr or fault in {"openssl fails", "a signal"}  # openssl itself says why
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deploy", "programs"]


@pytest.mark.slow
def test_the_database_of_the_containers(secrets: Path) -> None:
    """Does the same as compose.yaml, on an empty cluster: roles, schema, grant, service, console and events."""
    with socket_directory() as state_dir, embedded_postgres(state_dir) as url, connect(url) as root:
        host = str(conninfo_to_dict(url)["host"])
        files = compose()["services"]["postgres"]["secrets"]
        targets = {one if isinstance(one, str) else one["target"] for one in files}
        assert targets == {"superuser", "monitor", *(f"{role}.conf" for role in ROLES)}
        script = (DEPLOY / "postgres" / "roles.sh").read_text().replace("/run/secrets/", f"{secrets}/")
        script = script.replace("/etc/postgresql/", f"{secrets.parent}/deploy/postgres/")
        root.execute("alter system set log_statement = 'all'")
        root.execute("select pg_reload_conf()")
        psql = state_dir / "psql"  # records its arguments, then runs the real one
        psql.write_text(f'#!/bin/sh\necho "$@" >> {state_dir}/arguments\nexec {programs()}/psql "$@"\n')
        psql.chmod(0o755)
        query = "select rolname, rolpassword like 'SCRAM-SHA-256$%' from pg_authid where rolname ~ '^sepu_' order by 1"

        def make_roles(script: str) -> subprocess.CompletedProcess[str]:
            path = f"{state_dir}:{programs()}:{os.environ['PATH']}"
            return completed(["/bin/sh", "-c", script], env={"PATH": path, "POSTGRES_USER": "sepu", "PGHOST": host})

        assert make_roles(script.replace("/monitor", "/absent")).returncode != 0
        assert root.execute(query).fetchall() == []
        made = make_roles(script)
        assert made.returncode == 0, made.stderr
        passwords = re.findall(r"[0-9a-f]{48}", "".join((secrets / name).read_text() for name in targets))
        assert len(passwords) == len(targets)
        told = (state_dir / "arguments").read_text() + (state_dir / "postgres.log").read_text()
        assert "statement: create role sepu_owner" in told
        assert [password for password in passwords if password in told] == []
        assert root.execute(query).fetchall() == [(f"sepu_{role}", True) for role in sorted(("monitor", *ROLES))]
        for line in (DEPLOY / "postgres" / "sepu.conf").read_text().splitlines():
            if match := re.match(r"(\w+) = '?([^'#]+?)'?$", line):
                root.execute("alter system set " + match[1] + " = '" + match[2] + "'")  # refuses unknown settings

        def sepu(arguments: list[str], role: str, **environment: str) -> None:
            file = secrets / f"{role}.conf"
            file.write_text(file.read_text().replace("host=postgres\n", f"host={host}\n"))
            connection = {"PGSERVICEFILE": str(file), "SEPU_DATABASE_URL": "postgresql:///?service=sepu"}
            environment |= {"PATH": os.environ["PATH"], **connection}
            subprocess.run([SEPU, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL, timeout=60)

        for command in compose()["services"]["migrate"]["command"][0].split(" && "):
            name, *arguments = command.split()
            assert name == "sepu"
            sepu(arguments, "owner")
        as_owner = f"postgresql://sepu_owner@/sepu?host={quote(host, safe='')}"
        with connect(as_owner) as connection:
            assert [*read_open_rights(connection), *not_of_purpose(connection)] == []
            assert {role for _, role in granted_roles(connection)} == {f"sepu_{role}" for role in ROLES[1:]}
            assert connection.execute("show server_encoding").fetchall() == [("UTF8",)]  # not the cluster's
            set_plan(connection, "one", {"color_match": 1, "color_search": 1}, requests_per_minute=10)
            issued = accounts.create_account(connection, "one")
        with serving("uvloop", as_owner.replace("sepu_owner", "sepu_service"), workers=1) as server:
            headers = {"Authorization": f"Bearer {issued.api_key}", "Idempotency-Key": "container-1"}
            assert server.request("GET", "/v1/search?q=taohong", headers).status == 200
        monitor = compose()["services"]["postgres-exporter"]["environment"]["DATA_SOURCE_USER"]
        with connect(make_conninfo(url, user=monitor, dbname="postgres")) as connection:
            connection.execute("select pg_ls_waldir()")  # needs pg_monitor
        with connect(as_owner.replace("sepu_owner", "sepu_console")) as connection:
            assert connection.execute("select committed from sepu.usage").fetchall() == [(1,)]
        *arguments, metrics = compose()["services"]["events"]["command"]
        with endpoint() as hooks:
            environment = {"SEPU_EVENTS_URL": hooks.url, "SEPU_EVENTS_SECRET_FILE": str(secrets / "hooks")}
            sepu([*arguments, str(secrets / Path(metrics).name), "--once"], "events", **environment)
        assert len(hooks.received) == 3
        hooks.received[0].verify((secrets / "hooks").read_text().strip())


@pytest.mark.slow
def test_a_role_and_its_service_file_are_made_together_or_not_at_all(tmp_path: Path) -> None:
    with socket_directory() as state_dir, embedded_postgres(state_dir) as url, connect(url) as root:
        root.execute("alter system set log_statement = 'all'")
        root.execute("select pg_reload_conf()")
        script = (DEPLOY / "postgres" / "make-role.sh").read_text().replace("/etc/sepu/", f"{tmp_path}/")
        runuser = tmp_path / "runuser"  # needs no other user: the embedded Postgres lets everybody in
        runuser.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/arguments\nshift 3\nexec "$@"\n')
        runuser.chmod(0o755)
        environment = {
            "PATH": f"{tmp_path}:{programs()}:{os.environ['PATH']}",
            "PGHOST": str(conninfo_to_dict(url)["host"]),
            "PGUSER": "sepu",
            "PGDATABASE": "postgres",
        }

        def make(role: str) -> subprocess.CompletedProcess[str]:
            return completed(["/bin/sh", "-c", script, "make-role.sh", role], env=environment)

        query = "select rolname, rolpassword like 'SCRAM-SHA-256$%' from pg_authid where rolname ~ '^sepu_' order by 1"
        made = make("events")
        assert made.returncode == 0, made.stderr
        file = tmp_path / "events.conf"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        [password] = re.findall(r"^password=([0-9a-f]{48})$", file.read_text(), re.MULTILINE)
        told = (tmp_path / "arguments").read_text() + (state_dir / "postgres.log").read_text()
        assert "statement: create role sepu_events" in told
        assert password not in told
        assert "nothing was changed" in make("events").stderr
        role = "select rolconnlimit, setconfig from pg_roles left join pg_db_role_setting on setrole = pg_roles.oid "
        bounds = (limits.database.ROLE_CONNECTIONS["events"], [f"temp_file_limit={limits.database.ROLE_TEMP_FILES}"])
        assert root.execute(role + "where rolname = 'sepu_events'").fetchall() == [bounds]
        root.execute("create role sepu_service")
        assert make("service").returncode != 0
        working = runuser.read_text()
        runuser.write_text('#!/bin/sh\nshift 3\necho once | "$@"\n')  # \\password fails
        assert make("console").returncode != 0
        runuser.write_text(working)
        assert "no purpose 'nothing'" in make("nothing").stderr
        environment["PGHOST"] = str(tmp_path)  # no server there
        assert make("owner").returncode != 0
        assert root.execute(query).fetchall() == [("sepu_events", True), ("sepu_service", None)]
        assert [path.name for path in tmp_path.iterdir() if ".conf" in path.name] == ["events.conf"]


def test_postgres_logs_no_parameters(connection: psycopg.Connection) -> None:
    logged: list[str] = []
    connection.add_notice_handler(lambda line: logged.append(f"{line.message_primary} {line.message_detail}"))
    settings = (DEPLOY / "postgres" / "sepu.conf").read_text()
    for name, value in re.findall(r"^(log_(?!checkpoints)\w+) = (\w+)$", settings, re.MULTILINE):
        connection.execute(f"set {name} = '{value}'".encode())
    connection.execute("set log_min_duration_statement = 0; set client_min_messages = log")
    connection.execute("select 1 / length(%s)", ["a secret"])
    with pytest.raises(psycopg.errors.DivisionByZero) as failed:
        connection.execute("select length(%s) / 0", ["a secret"])
    assert "select 1 / length($1)" in "".join(logged)
    assert "a secret" not in f"{logged} {failed.value.diag.context}"


def test_each_measure_of_postgres_has_its_unit(connection: psycopg.Connection) -> None:
    settings = (DEPLOY / "postgres" / "sepu.conf").read_text()
    bare = re.findall(r"^(\w+) = \d*[1-9]\d*$", settings, re.MULTILINE)
    query = "select name from pg_settings where unit is not null and name = any(%s)"
    assert connection.execute(query, [bare]).fetchall() == []


# --- systemd


def settings_of(unit: str) -> list[tuple[str, str]]:
    """The settings of a unit's service, in order."""
    service = (DEPLOY / "systemd" / unit).read_text().partition("[Service]\n")[2].partition("\n[")[0]
    return re.findall(r"^(\w+)=(.*)$", service.replace("\\\n", " "), re.MULTILINE)


UNITS = sorted(path.name for path in (DEPLOY / "systemd").glob("*.service"))
# The restrictions of the service: its settings from this one on.
PROTECTIONS = settings_of("sepu@.service")[settings_of("sepu@.service").index(("NoNewPrivileges", "yes")) :]
# gunicorn chowns its socket. RemoveIPC for the user postgres would remove the server's shared memory.
EXCEPTIONS = {("SystemCallFilter", "@chown")}
MISSING = {"sepu-backup.service": {("RemoveIPC", "yes")}}


@pytest.mark.parametrize("unit", UNITS)
def test_each_unit_has_a_user_of_its_own_and_all_protections(unit: str) -> None:
    found = settings_of(unit)
    (user,) = [value for name, value in found if name == "User"]
    others = [value for other in (*UNITS, "sepu@console.conf") for name, value in settings_of(other) if name == "User"]
    assert user != "root"
    assert others.count(user) == 1
    assert ("Group", "sepu") not in found or unit == "sepu@.service"  # that group includes nginx's user
    assert user == "postgres" or f"\nu {user} " in (DEPLOY / "systemd" / "sysusers.conf").read_text()
    assert [name for name, value in found if name.startswith("Exec") and value[:1] in {"+", "!"}] == []
    assert {*PROTECTIONS} - EXCEPTIONS - {*found} == MISSING.get(unit, set())
    assert not re.search(r"_BIND=(?!unix:|127\.0\.0\.1:)", str(found)), "only this machine reads metrics"


@pytest.mark.parametrize("unit", UNITS)
def test_each_unit_may_write_where_its_program_does(unit: str) -> None:
    found = settings_of(unit)
    told = [word for name, value in found if name == "Environment" for word in shlex.split(value)]
    assert [word for word in told if not re.match(r"\w+=", word)] == []  # systemd ignores these
    told += [value for name, value in found if name == "ExecStart"]
    given = {"StateDirectory": "/var/lib/", "ReadWritePaths": ""}
    writable = [path.lstrip("-") for name, value in found if name in given for path in (given[name] + value).split()]
    used = re.findall(r"/var/[\w/.-]+", " ".join(told))
    assert [path for path in used if not path.startswith(tuple(writable))] == []


def test_each_unit_has_a_password_of_its_own() -> None:
    console = settings_of("sepu@.service") + settings_of("sepu@console.conf")
    passwords = []
    for found in (console, *map(settings_of, UNITS)):
        loaded = dict(value.split(":") for name, value in found if name == "LoadCredential")  # the last one counts
        passwords += [loaded[name] for name in re.findall(r"PGSERVICEFILE=%d/([\w.]+)", str(found))]
    assert sorted(passwords) == [f"/etc/sepu/{role}.conf" for role in ("console", "events", "owner", "service")]


@pytest.mark.slow
def test_the_units_are_what_systemd_takes_and_let_little_through(tmp_path: Path) -> None:
    analyze = program("systemd-analyze", "systemd")
    for name in (*UNITS, "sepu@console.conf"):
        text = re.sub(
            r"(?m)^(ExecStart=)/(opt|usr/local)/\S+", rf"\g<1>{sys.executable}", (DEPLOY / "systemd" / name).read_text()
        )
        path = tmp_path / name.replace("@console.conf", "@console.service.d/console.conf")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    for unit in (*UNITS, "sepu@console.service"):
        verified = completed([analyze, "verify", tmp_path / unit])
        assert (verified.returncode, verified.stderr) == (0, ""), unit
    for unit in UNITS:
        security = completed([analyze, "security", "--offline=true", "--threshold=15", tmp_path / unit])
        assert security.returncode == 0, security.stdout + security.stderr


def test_the_unit_leaves_time_to_finish() -> None:
    text = (DEPLOY / "systemd" / "sepu@.service").read_text()
    (stop,) = re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)
    assert int(stop) > limits.workers.GRACEFUL_SECONDS
    assert int(dict(settings_of("sepu-events.service"))["TimeoutStopSec"]) > limits.webhooks.ANSWER_SECONDS
    # gunicorn changes the owner of its socket to its own user, and does not start where it cannot.
    assert text.index("SystemCallFilter=@chown") > text.index("SystemCallFilter=~@privileged")
    (path,) = re.findall(r"SEPU_BIND=(\S+)", text)
    assert "\nRuntimeDirectoryPreserve=yes\n" in text, "the directory has the other instance's socket too"
    assert f"server {path.replace('%i', '1')} " in NGINX
    (user,), (group,) = re.findall(r"^user (\S+);", NGINX, re.MULTILINE), re.findall(r"(?m)^Group=(.*)$", text)
    assert f"\nm {user} {group}\n" in (DEPLOY / "systemd" / "sysusers.conf").read_text()  # may use the sockets


@pytest.mark.slow
def test_two_instances_of_the_unit_run_beside_each_other_and_have_started_when_they_listen(
    service_url: str, tmp_path: Path
) -> None:
    text = (DEPLOY / "systemd" / "sepu@.service").read_text()
    assert "\nType=notify\n" in text
    (bind,) = re.findall(r"SEPU_METRICS_BIND=(\S+)", text)
    ours: dict[str, str] = {}  # the unit's ports may be taken here
    with (
        socket_directory() as directory,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd,
        (tmp_path / "log").open("w") as log,
        ExitStack() as stack,
    ):
        systemd.bind(str(directory / "notify"))
        systemd.settimeout(30)
        environment = {**os.environ, "SEPU_DATABASE_URL": service_url, "NOTIFY_SOCKET": str(directory / "notify")}
        for instance in ("1", "2"):
            metrics = ours.setdefault(bind.replace("%i", instance), f"127.0.0.1:{free_port()}")
            where = ["--bind", f"unix:{directory}/{instance}.sock", "--metrics-bind", metrics, "--workers", "1"]
            stack.enter_context(running([SEPU, "serve", *where], env=environment, stderr=log))
            assert systemd.recv(1000).startswith(b"READY=1\n")
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(f"{directory}/{instance}.sock")
        assert len(ours) == 2
        for metrics in ours.values():
            assert samples(metrics)["sepu_workers_started_total", ()] == 1


# --- the pages


@pytest.mark.parametrize(("command", "page"), [(serve, "deploy.md"), (console, "console.md")])
def test_every_setting_is_told(command: click.Command, page: str) -> None:
    settings = {parameter.envvar for parameter in command.params} - {None}
    assert "SEPU_STATE_DIR" in settings
    assert settings <= set(re.findall(r"SEPU_\w+", (ROOT / "docs" / page).read_text()))
