#!/bin/sh
# The image of Postgres runs this once, on a new cluster: makes the database, and roles for its owner, the service, the
# console, events, people's commands and monitoring, with the passwords that they connect with.
set -eu
trap '[ $? = 0 ] || echo "roles.sh failed, see above; then start again: docker compose down --volumes" >&2' EXIT
export PGUSER="$POSTGRES_USER" PGDATABASE=postgres

password() {
    found=$(sed -n 's/^password=//p' "/run/secrets/$1.conf")
    echo "${found:?is not in $1.conf}"
}

# Without a terminal \password reads standard input, twice. So the password is in no argument, and the server gets only its
# hash: neither its log nor its statistics can show it.
set_password() {
    printf '%s\n' "$2" "$2" | setsid --wait psql --no-psqlrc --set ON_ERROR_STOP=1 --command "\\password $1"
}

# All are read before anything is made. One a line: sh notices only the last failure of several on one line.
owner=$(password owner)
service=$(password service)
console=$(password console)
events=$(password events)
accounts=$(password accounts)
monitor=$(cat /run/secrets/monitor)
: "${monitor:?is empty}"

psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 <<'SQL'
create role sepu_owner login connection limit 16;
create role sepu_service login connection limit 60;
create role sepu_console login connection limit 8;
create role sepu_events login connection limit 4;
create role sepu_accounts login connection limit 4;
create role sepu_monitor login connection limit 4 in role pg_monitor;
create database sepu owner sepu_owner template template0 encoding 'UTF8' locale 'C';
-- For the files of a sort: no role can raise this itself.
alter role sepu_service set temp_file_limit = '1GB';
alter role sepu_console set temp_file_limit = '1GB';
alter role sepu_events set temp_file_limit = '1GB';
alter role sepu_accounts set temp_file_limit = '1GB';
SQL
/etc/postgresql/close-public.sh sepu_owner
set_password sepu_owner "$owner"
set_password sepu_service "$service"
set_password sepu_console "$console"
set_password sepu_events "$events"
set_password sepu_accounts "$accounts"
set_password sepu_monitor "$monitor"
