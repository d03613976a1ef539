#!/bin/sh
# Prints, for Prometheus, when certificates expire. Each PLACE is a file, or HOST:PORT of a server, which serves an old
# certificate until it is reloaded. A certificate that cannot be read counts as expired.
#
#     check-certificates.sh PLACE...
set -eu
command -v openssl > /dev/null || { echo "certificates: openssl is missing" >&2; exit 1; }
for place; do
    end=$(
        case $place in
        [!/]*:*) timeout 10 openssl s_client -connect "$place" < /dev/null 2> /dev/null ;;
        *) cat "$place" ;;
        esac | openssl x509 -noout -enddate 2> /dev/null
    ) || end==@0
    ends=$(date -d "${end#*=}" +%s)
    echo "sepu_certificate_not_after_seconds{place=\"$place\"} $ends"
done
now=$(date +%s)
echo "sepu_certificates_timestamp_seconds $now"
