"""Follows the operators' pages, command by command, on a fresh machine: `make walk`.

Commands run unchanged. The tables below are the only exceptions: replacements of names, events between two commands,
and commands that cannot run here. The machine gets the files of the last commit. build/walk/output.txt has the output
of each command.
"""

import re
import sys
from collections.abc import Iterator

import click
from tests.walk.machine import BUILD, lacking, machine, prepare, shell
from tests.walk.pages import commands

PAGES = (
    *("deploy.md", "accounts.md", "billing.md", "support.md", "events.md"),
    *("observe.md", "operate.md", "runbook.md", "console.md"),
)

_READY = "set -o pipefail; cd /srv/sepu"
_OPERATOR = f"""{_READY}
export PATH=/opt/sepu/bin:$PATH PGSERVICEFILE=/etc/sepu/owner.conf SEPU_DATABASE_URL='postgresql:///?service=sepu'
ACCOUNT=$(sepu account create --plan standard | sed -n 's/^accountId *//p')
KEYID=$(sepu key issue $ACCOUNT | sed -n 's/^keyId *//p')
use_some() {{  # 150 units of an account
    apiKey=$(sepu key issue $1 | sed -n 's/^apiKey *//p')
    for n in $(seq 150); do
        curl -sSf -o /dev/null --unix-socket /run/sepu/1.sock http://localhost/v1/match \\
            -H "Authorization: Bearer $apiKey" -H "Idempotency-Key: walk-some-$n" \\
            --json '{{"colors": [{{"r": 1, "g": 2, "b": 3}}]}}' || return
    done
}}
use_up() {{  # three events of a new customer
    sepu plan set small --match-limit 1 --search-limit 1 --requests-per-minute 1 > /dev/null &&
    curl -sSf -o /dev/null --unix-socket /run/sepu/1.sock 'http://localhost/v1/search?q=red' \\
        -H "Authorization: Bearer $(sepu account create --plan small | sed -n 's/^apiKey *//p')" \\
        -H 'Idempotency-Key: walk-events'
}}"""
# Waits for that number of events, each with the right signature.
_TAKEN = "timeout 60 sh -c 'until test $(sort -u /run/taken | wc -l) = {}; do sleep 1; done'"
# psql continues after an error, and its exit status does not show it.
_FIRST = """set -o pipefail
echo '\\set ON_ERROR_STOP on' | tee ~/.psqlrc > /var/lib/postgresql/.psqlrc
export PIP_NO_INDEX=1 PIP_FIND_LINKS=/mnt/wheels
git config --global --add safe.directory '*' && git clone --quiet /mnt/sepu /srv/sepu && cd /srv/sepu"""

# What a reader puts in place of names on the pages.
READ_AS = (
    (r"\b[a-z2-7]{16}-[a-z2-7]{8}\b|\bKEYID\b", "$KEYID"),
    (r"'(gfhi7crqxq5fijj3|lqihq752nef7ynd6)'", "'$ACCOUNT'"),
    (r"(?<!\$)\b(gfhi7crqxq5fijj3|lqihq752nef7ynd6|ACCOUNT)\b", "$ACCOUNT"),
    (r"^(git fetch --tags && git checkout) vNEW$", r"\1 HEAD"),
    (
        r"^(python3 -m venv /opt/sepu-NEW) ….*",
        r"\1 && pip=/opt/sepu-NEW/bin/pip && $pip install --require-hashes -r requirements/build.txt"
        r" && $pip install --require-hashes --no-build-isolation -r requirements/server.txt"
        r" && $pip install --no-deps --no-build-isolation .",
    ),
    (r"(?s)<<'X'(.*)'2026-11-21 17:29:00.664911\+00'", r"<<X\1'$MOMENT'"),
    (r"^(export SEPU_DATABASE_URL)=….*", r"\1='postgresql:///?service=sepu&port=5433'"),
    (r"^SEPU_DATABASE_URL=… ", ""),
    (r"^(sepu credit add .*--month) 2026-11", r"\1 $(date -u +%Y-%m)"),
    (r"^(sepu export-usage) 2026-11( --draft)?", r"\1 --draft $(date -u +%Y-%m)"),
    (r"sepu\.log\.gz", "<(journalctl -u 'sepu@*' -o cat)"),
    (r"^runuser .* -c '\\password \w+'$", r"printf 'secret\\nsecret\\n' | setsid --wait \g<0>"),
    (r"^runuser -u postgres -- pg_basebackup .* -R ", r"PGPASSWORD=secret \g<0>"),
    (r"https://example\.com/hooks", "http://127.0.0.1:8091/hooks"),
    (r"^sepu events deliver .*", r"\g<0> --once"),
    (r"restored to sepu_service'    # and .*", "restored to sepu_service, ada, sepu_events'"),
    (r"pg_(cancel|terminate)_backend\(\d+\)", r"pg_\1_backend($BLOCKING)"),
    (r'sepu -c "…"', 'sepu -c "select 1"'),
)
# Events, or the page's instructions in words, before a command.
BEFORE = {
    "sepu key rotate": "sepu receipt keypair sepu-private.jwk sepu-public.jwk",
    "sepu key find": "sepu account create --plan standard > leaked.txt",
    "sepu events list": "use_up",
    "sepu credit add": "use_some cus_8812",
    "sepu events try": "systemd-run -q --working-directory=/srv/sepu /opt/sepu/bin/python -m tests.walk.receiver\n"
    "timeout 60 sh -c 'until curl -s http://127.0.0.1:8091; do sleep 1; done'",
    "systemctl enable --now sepu-events": "use_up",
    "pg_createcluster 15 restored": "MOMENT=$(runuser -u postgres -- psql -Atc 'select clock_timestamp()')\n"
    "sepu account create --plan standard > /dev/null && runuser -u postgres -- psql -c 'select pg_switch_wal()'",
    "runuser -u postgres -- psql -p 5433 -Atc": "sleep 5",
    "pg_createcluster 15 standby": "ip address add 10.0.0.10 dev lo && ip link set lo up\n"
    "echo 'host replication replica 10.0.0.0/8 scram-sha-256' >> /etc/postgresql/15/main/pg_hba.conf\n"
    "runuser -u postgres -- psql -c \"alter system set listen_addresses = '*'\" && pg_ctlcluster 15 main restart",
    'runuser -u postgres -- psql sepu -c "select pg_terminate': "export BLOCKING=0",
}
# Conditions that hold after a page.
THEN = {
    "deploy.md": ("curl -sf http://127.0.0.1:9391/metrics", "curl -sf http://127.0.0.1:9392/metrics"),
    "accounts.md": ("sepu receipt open sepu-private.jwk receipt.txt",),
    "events.md": (
        _TAKEN.format(10),
        "timeout 60 sh -c \"until sepu events status | grep -x 'due  *0'; do sleep 1; done\"",
        "grep '^sepu_events_dead 0' /var/lib/sepu/node-exporter-events/sepu_events.prom",
    ),
    "observe.md": ("curl -sf http://127.0.0.1:9187/metrics | grep '^pg_stat_archiver_failed_count'",),
    "operate.md": (
        "curl -sf http://127.0.0.1:9100/metrics | grep '^sepu_audit_differences 0'",
        "curl -sf http://127.0.0.1:9100/metrics | grep '^sepu_backup_timestamp_seconds '",
        'runuser -u postgres -- psql -Atc "select distinct datdba, encoding, datcollate, datctype, datacl'
        " from pg_database where datname in ('sepu', 'restored')\" | grep -c . | grep -x 1",
        "test \"$(runuser -u postgres -- psql -p 5433 -Atc 'select pg_is_in_recovery()')\" = f",
    ),
    # Postgres was restarted meanwhile.
    "runbook.md": (f"use_up && {_TAKEN.format(13)} && systemctl show -P NRestarts sepu-events | grep -x 0",),
}
# Commands that do not end, or need Docker, the network or an embedded Postgres.
LEFT_OUT = {
    "deploy/make-secrets.sh": "for containers",
    "docker ": "for containers",
    "COMMIT=$(git rev-parse HEAD) docker ": "for containers",
    'deploy/check-certificates.sh "$PWD': "for containers",
    "sepu console": "serves until it is stopped; the unit serves it below",
    "sepu serve": "serves until it is stopped; the unit has the same metrics",
    **dict.fromkeys(
        ("curl --retry", '(umask 077; "$(find .venv', "kill %1", "psql service=sepu"),
        "of the trial; tests/backup does this",
    ),
}


def main() -> None:
    """Walks, and exits with 1 if a command failed."""
    if reason := lacking():
        sys.exit(reason)
    prepare()
    failures = walked = 0
    with machine() as init, (BUILD / "output.txt").open("w") as output:
        for page in PAGES:
            with shell(init, _FIRST if page == "deploy.md" else _OPERATOR) as run:
                for failure, command in steps(page):
                    status, printed, seconds = run(command)
                    walked += 1
                    failures += status != 0
                    head = command.partition("\n")[0]
                    click.echo(f"{failure if status else 'ok':13} {seconds:5.1f} s {page}: {head}")
                    print(f"{page}: {command}\n{printed}\n(status {status})\n", file=output, flush=True)
    click.echo(f"{walked} commands, {failures} failed")
    sys.exit(failures > 0)


def steps(page: str) -> Iterator[tuple[str, str]]:
    """Yields the steps of a page, each with the message for its failure."""
    for command in commands(page):
        if reason := of(LEFT_OUT, command):
            click.echo(f"{'':22} {page}: {command}   ({reason})")
            continue
        if prepared := of(BEFORE, command):
            yield "FAILED before", prepared
        yield "FAILED", as_read(command)
    for command in THEN.get(page, ()):
        yield "NOT SO", command


def as_read(command: str) -> str:
    for pattern, meant in READ_AS:
        command = re.sub(pattern, meant, command)
    return command


def of(table: dict[str, str], command: str) -> str | None:
    return next((value for start, value in table.items() if command.startswith(start)), None)


if __name__ == "__main__":
    main()
