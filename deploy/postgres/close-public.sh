#!/bin/sh
# Takes from PUBLIC, in every database of this server, what no role of sepu needs: src/sepu/database/sql/public.sql says
# what and why. The schema's owner gets it instead, and so do other roles that you name, which need it for other
# applications. Run it as root where Postgres is, or with libpq's variables for a superuser (PGHOST, PGUSER …). Run it
# again after each new database; repeating it changes nothing. On Citus, run it on every node.
#
#     close-public.sh OWNER [ROLE …]
set -eu
: "${1:?is missing: the role that owns the schema, such as sepu_owner}"
query=$(cat "$(dirname "$0")/public.sql")
keepers=
for role; do keepers="$keepers${keepers:+,}\"$role\""; done

as_superuser() {
    if [ "$(id -u)" = 0 ] && [ -z "${PGHOST-}" ]; then
        runuser -u postgres -- "$@"
    else
        "$@"
    fi
}

databases=$(as_superuser psql --no-psqlrc --tuples-only --no-align --dbname "${PGDATABASE:-postgres}" \
    --command 'select datname from pg_database where datallowconn')
echo "$databases" | while IFS= read -r database; do
    # One transaction: charges run with the owner's rights, so they fail if PUBLIC loses them first.
    as_superuser env PGDATABASE="$database" psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --set keepers="{$keepers}" \
        --single-transaction --file - <<SQL
set sepu.keepers = :'keepers';
select c.statement from ($query) o cross join unnest(o.grants || o.revoke) with ordinality as c (statement, at)
 order by o.what, c.at
\gexec
SQL
done
