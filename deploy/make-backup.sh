#!/bin/sh
# Makes a base backup below DIRECTORY, and keeps the newest KEEP of those that it made. It deletes older ones, and the WAL
# in ARCHIVE that none of the kept ones needs. If the backup fails, it deletes nothing. Prints metrics for Prometheus.
#
#     make-backup.sh DIRECTORY KEEP ARCHIVE
set -eu
keep=$2 archive=$3
[ "$keep" -ge 1 ] || { echo "backup: KEEP must be at least 1" >&2; exit 1; }
cd "$1"
exec 9< .
flock --nonblock 9 || { echo "backup: another one is running" >&2; exit 1; }
made='[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9][0-9][0-9][0-9][0-9]'  # nothing else is deleted
rm -rf $made.part  # of interrupted runs

new=$(date -u +%Y-%m-%dT%H%M%S)
pg_basebackup -D "$new.part" -Ft -z -c fast
mv -T "$new.part" "$new"

newest=$(ls -d $made | tail -n 1)
[ "$newest" = "$new" ] || { echo "backup: $newest is from the future; check the clock, and delete it" >&2; exit 1; }
for old in $(ls -d $made | head -n "-$keep"); do
    mv -T "$old" "$old.part"  # or half of it would count as a backup
    rm -r "$old.part"
done
oldest=$(ls -d $made | head -n 1)
first=$(tar --occurrence=1 -xzOf "$oldest/base.tar.gz" backup_label | sed -n 's/^START WAL .*(file \(.*\))$/\1/p')
if [ -d "$archive" ]; then
    pg_archivecleanup "$archive" "${first:?is not in $oldest}"
else
    echo "backup: there is no directory $archive, so no WAL was deleted" >&2
fi

# All are read before anything is printed: a line without its value would spoil the whole file.
now=$(date +%s)
bytes=$(du -sb "$new")
free=$(df --output=avail -B 1 .)
echo "sepu_backup_timestamp_seconds $now"
echo "sepu_backup_bytes ${bytes%%[!0-9]*}"
echo "sepu_backup_free_bytes ${free##*[!0-9]}"
