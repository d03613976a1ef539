#!/bin/sh
# Postgres's archive_command: copies SEGMENT to TARGET, and returns when the disk has it. A copy that is there already is
# compared: after a crash Postgres archives its last segment again. TARGET has its name only when it is complete.
#
#     archive-wal.sh SEGMENT TARGET
set -eu
if [ -e "$2" ]; then
    cmp "$1" "$2" || { echo "archive: $2 is from another cluster, or damaged; nothing was archived" >&2; exit 1; }
else
    cp --sparse=always "$1" "$2.part"
    sync "$2.part"
    mv -T "$2.part" "$2"
fi
sync "$(dirname "$2")"
