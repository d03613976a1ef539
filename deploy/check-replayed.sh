#!/bin/sh
# Says whether a recovering server (with standby.signal) has replayed all WAL of ARCHIVE, or paused at its target.
# Promote it only then: if a segment is missing, everything after it would be lost silently. PGHOST and PGPORT name the
# server.
#
#     check-replayed.sh ARCHIVE
set -eu
newest=$(find "$1" -maxdepth 1 -name '????????????????????????' ! -name '*[!0-9A-F]*' -printf '%f\n' | sort | tail -n 1)
: "${newest:?replayed: there is no WAL in $1}"
# "next" is the segment that the server needs now; the newest one is of the newest timeline.
state=$(psql --no-psqlrc --quiet --no-align --tuples-only --set ON_ERROR_STOP=1 --set newest="$newest" <<'SQL'
with wal as (
    select setting::bigint as size, 4294967296 / setting::bigint as per_log from pg_settings where name = 'wal_segment_size'
), replay as (
    select div(pg_last_wal_replay_lsn() - '0/0' - 1, size)::bigint + 1 as next, per_log,
           ('x' || substr(:'newest', 9, 8))::bit(32)::bigint * per_log
             + ('x' || substr(:'newest', 17))::bit(32)::bigint as newest
      from wal
)
select case when not pg_is_in_recovery() then 'promoted'
            when pg_get_wal_replay_pause_state() = 'paused' then 'paused'
            when next > newest then 'all'
            else upper(lpad(to_hex(next / per_log), 8, '0') || lpad(to_hex(next % per_log), 8, '0')) end,
       coalesce(pg_last_xact_replay_timestamp()::text, 'none')
  from replay
SQL
)
commit="last commit ${state#*|}"
case ${state%%|*} in
promoted) echo "replayed: the server is promoted already; recover it again to know what it replayed" >&2; exit 1 ;;
paused) echo "paused at the target, $commit" ;;
all) echo "all of the archive, to $newest, $commit" ;;
*)
    next=${state%%|*}
    if ls "$1"/????????"$next" > /dev/null 2>&1; then
        echo "replayed: not yet; $next is next, and $newest the newest in $1" >&2
    else
        echo "replayed: $next is missing in $1, which goes on to $newest: look for it in pg_wal of the old server" >&2
    fi
    exit 1
    ;;
esac
