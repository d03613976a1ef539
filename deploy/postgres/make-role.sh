#!/bin/sh
# Makes a database role with a random password, and the libpq service file that connects as it: /etc/sepu/NAME.conf,
# which only root can read. The role may open so many connections that others, and a superuser, still can; all roles
# together need max_connections = 100. Run it as root where Postgres is. If it fails, it leaves neither.
#
#     make-role.sh owner|service|console|events|accounts
set -eu
role=sepu_$1 file=/etc/sepu/$1.conf
case $1 in
    owner) connections=16 ;;
    service) connections=60 ;;
    console) connections=8 ;;
    events) connections=4 ;;
    accounts) connections=4 ;;
    *) echo "make-role.sh: there is no purpose '$1'" >&2; exit 2 ;;
esac
# For the files of a sort: no role can raise this itself.
files="alter role $role set temp_file_limit = '1GB'"
[ "$1" != owner ] || files=
[ ! -e "$file" ] || { echo "make-role.sh: $file exists; nothing was changed" >&2; exit 1; }
umask 077
part=$(mktemp "$file.XXXXXX")
trap 'rm -f "$part"' EXIT
trap 'exit 1' HUP INT TERM
password=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
printf '[sepu]\nhost=127.0.0.1\ndbname=sepu\nuser=%s\npassword=%s\n' "$role" "$password" > "$part"
grep -Eq '^password=[0-9a-f]{48}$' "$part" || { echo "make-role.sh: could not write $part" >&2; exit 1; }
# Without a terminal \password reads standard input, twice. The server gets only the hash, so it can log no password.
printf '%s\n' "$password" "$password" |
    setsid --wait runuser -u postgres -- psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --single-transaction \
        --command "create role $role login connection limit $connections" --command "$files" --command "\\password $role"
mv "$part" "$file"
