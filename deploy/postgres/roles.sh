#!/bin/sh
# Run once by the image of Postgres, when the cluster is new: the database, the role that owns its schema, the one that
# serves, those of the console and of events, and the one that monitors. The passwords are those that they connect with.
set -eu

psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres <<'SQL'
-- psql reads the passwords itself: others could see its arguments. Nor does the server log them.
set log_statement = 'none';
set log_min_duration_statement = -1;
set log_min_error_statement = 'panic';
\set owner `sed -n 's/^password=//p' /run/secrets/owner.conf`
\set service `sed -n 's/^password=//p' /run/secrets/service.conf`
\set console `sed -n 's/^password=//p' /run/secrets/console.conf`
\set events `sed -n 's/^password=//p' /run/secrets/events.conf`
\set monitor `cat /run/secrets/monitor`
create role sepu_owner login password :'owner';
create role sepu_service login password :'service';
create role sepu_console login password :'console';
create role sepu_events login password :'events';
create role sepu_monitor login password :'monitor' in role pg_monitor;
create database sepu owner sepu_owner template template0 encoding 'UTF8' locale 'C';
revoke all on database sepu from public;
grant connect on database sepu to sepu_service, sepu_console, sepu_events;
-- The files of a sort: no role can raise that itself.
alter role sepu_service set temp_file_limit = '1GB';
alter role sepu_console set temp_file_limit = '1GB';
alter role sepu_events set temp_file_limit = '1GB';
-- What every role may write, and only a superuser can take away: large objects, and messages in the WAL.
\connect sepu
select 'revoke execute on function ' || oid::regprocedure || ' from public' from pg_proc
 where proname in ('lo_creat', 'lo_create', 'lo_from_bytea', 'pg_logical_emit_message') \gexec
SQL
