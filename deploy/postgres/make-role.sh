#!/bin/sh
# Makes a database role with a random password, and the libpq service file that connects as it: /etc/sepu/NAME.conf,
# which only root can read. Run it as root where Postgres is. If it fails, it leaves neither.
#
#     make-role.sh owner|service|console|events
set -eu
role=sepu_$1 file=/etc/sepu/$1.conf
[ ! -e "$file" ] || { echo "make-role.sh: $file exists; nothing was changed" >&2; exit 1; }
umask 077
part=$(mktemp "$file.XXXXXX")
trap 'rm -f "$part"' EXIT
password=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
printf '[sepu]\nhost=127.0.0.1\ndbname=sepu\nuser=%s\npassword=%s\n' "$role" "$password" > "$part"
grep -Eq '^password=[0-9a-f]{48}$' "$part" || { echo "make-role.sh: could not write $part" >&2; exit 1; }
# The server logs no password, not even of a statement that fails.
runuser -u postgres -- psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 <<SQL
set log_statement = 'none';
set log_min_duration_statement = -1;
set log_min_error_statement = 'panic';
create role $role login password '$password';
SQL
mv "$part" "$file"
