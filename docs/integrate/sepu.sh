#!/bin/sh
# Calls sepu from a POSIX shell with curl 7.55 or later.

# sepu_call PATH [KEY [BODY]] sends the same request with the same key until there is an answer or the deadline is near.
# It prints the answer. The usage, and an error with its key, go to standard error.
sepu_call() (
    case $SEPU_URL in
    http://* | https://*) ;;
    *) echo 'SEPU_URL must begin with http:// or https://' >&2 && exit 2 ;;
    esac
    api_key=$(printf %s "$SEPU_API_KEY") # without a line break at its end
    case $api_key${2-} in
    *[![:graph:]]*) echo 'a key has characters that no header may have' >&2 && exit 2 ;;
    esac
    files=$(mktemp -d) || exit
    trap 'rm -rf "$files"' EXIT
    end=$(($(date +%s) + ${SEPU_DEADLINE:-60}))
    most=250 # milliseconds
    while :; do
        left=$((end - $(date +%s)))
        [ "$left" -ge 1 ] || left=1
        [ "$left" -le "${SEPU_TIMEOUT:-10}" ] || left=${SEPU_TIMEOUT:-10}
        status=$(sepu_attempt "$left" "$@")
        failed=$? code='' after=0
        if [ "$failed" -eq 23 ] || [ -n "$(sepu_header Content-Encoding)" ]; then
            failure='the answer is compressed or too long' status=-1
        elif [ "$failed" -eq 0 ]; then
            failure=''
            [ "$status" != 200 ] || ! grep -q '^{' "$files/body" || break
            code=$(sed -n 's/.*"error":"\([a-z_]*\)".*/\1/p' "$files/body")
            after=$(sepu_header Retry-After | sed -n 's/^0*\([0-9]\{1,6\}\)$/\1/p') # ignores dates
            pointer=$(sepu_header X-Error-Pointer | tr -cd 'a-z0-9/') # to the fault in an input: /colors/0/g
            failure="$status $code${pointer:+ at $pointer} (request id $(sepu_header X-Request-Id | tr -cd '0-9a-f-'))"
        else
            failure="no answer (curl $failed)" status=0
        fi
        # Milliseconds: Retry-After, and a random time whose limit grows.
        random=$(od -An -N4 -tu4 /dev/urandom)
        pause=$((1000 * ${after:-0} + $random % most))
        case "$status $code" in
        0\ | 408* | 5* | '409 request_in_progress') ;;
        '429 quota_exceeded') break ;;
        429*) ;;
        *) break ;;
        esac
        [ $((1000 * $(date +%s) + pause)) -lt $((1000 * end)) ] || break
        sleep "$(printf '%d.%03d' $((pause / 1000)) $((pause % 1000)))"
        [ "$most" -ge 8000 ] || most=$((2 * most))
    done
    if [ -n "$failure" ]; then
        echo "$failure${2:+; its key was $2}" >&2
        exit 1
    fi
    cat "$files/body"
    echo
    if [ -n "${2-}" ]; then
        became=charged
        [ -z "$(sepu_header Idempotency-Replayed)" ] || became=replayed
        echo "$became $2: $(sepu_header X-Usage-Remaining) of $(sepu_header X-Usage-Limit)" \
            "$(sepu_header X-Usage-Meter) remain" >&2
    fi
)

# The headers come from standard input, because other users can see a program's arguments.
# Files are limited to 2048 blocks of 512 bytes: beyond that, curl fails with 23.
sepu_attempt() {
    trap '' XFSZ
    ulimit -f 2048
    : > "$files/body"
    : > "$files/head"
    {
        echo "Authorization: Bearer $api_key"
        echo 'Accept-Encoding: identity'
        [ -z "${3-}" ] || echo "Idempotency-Key: $3"
        [ -z "${4-}" ] || echo 'Content-Type: application/json'
    } | curl --silent --max-time "$1" --header @- ${4:+--data-raw "$4"} --dump-header "$files/head" \
        --output "$files/body" --write-out '%{http_code}' "${SEPU_URL%/}$2"
}

sepu_header() {
    tr -d '\r' < "$files/head" | awk -v name="$1:" 'tolower($1) == tolower(name) {print $2; exit}'
}

# Makes an idempotency key. If the intent outlives this process, store the key with it.
sepu_key() {
    od -An -N16 -tx1 /dev/urandom | tr -d ' \n'
}

# R G B, each from 0 to 255, and a key of your own if you have one.
sepu_match() {
    sepu_call /v1/match "${4:-$(sepu_key)}" "{\"colors\":[{\"r\":$1,\"g\":$2,\"b\":$3}]}"
}

# A name, and a key of your own if you have one.
sepu_search() {
    encoded=$(printf %s "$1" | od -An -v -tx1 | tr -d '\n' | sed 's/ *\(..\) */%\1/g') # od's spacing varies
    sepu_call "/v1/search?q=$encoded" "${2:-$(sepu_key)}"
}

# An example, to be left out of a copy.
case "${SEPU_URL:+${SEPU_API_KEY:+$1 $#}}" in
'match 4' | 'search 2') ;;
*)
    echo 'SEPU_URL=… SEPU_API_KEY=… [SEPU_IDEMPOTENCY_KEY=…] sh sepu.sh match R G B | search Q' >&2
    exit 2
    ;;
esac
sepu_call /v1/usage >&2 && operation=$1 && shift && "sepu_$operation" "$@" "${SEPU_IDEMPOTENCY_KEY:-$(sepu_key)}"
