#!/bin/sh
# Makes the secrets of compose.yaml in secrets/, once: passwords for Postgres and Grafana, the secret that signs
# webhooks, and a self-signed certificate, to be replaced. Containers read the files under other user ids, so all can
# read the files, but only their owner can enter the directory. If it fails, it leaves nothing.
set -eu
cd "$(dirname "$0")/.."
if [ -e secrets ]; then
    echo "secrets: $PWD/secrets exists, and the running containers use it; nothing was changed" >&2
    exit 1
fi
command -v openssl > /dev/null || { echo "secrets: openssl is missing" >&2; exit 1; }
made=$(mktemp -d ./secrets.XXXXXX)  # of mode 0700
trap 'rm -rf "$made"' EXIT
trap 'exit 1' HUP INT TERM
umask 022

password() {
    openssl rand -hex 24 | tr -d '\n'
}

connection() {
    printf '[sepu]\nhost=postgres\ndbname=sepu\nuser=%s\npassword=' "$1"
    password
    echo
}

for name in superuser monitor grafana; do
    password > "$made/$name"
done
for role in owner service console events accounts; do
    connection sepu_$role > "$made/$role.conf"
done
secret=$(openssl rand -base64 32)
echo "whsec_$secret" > "$made/hooks"
echo '# SEPU_EVENTS_URL=https://example.com/hooks' > "$made/events.env"
mkdir "$made/tls"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 90 -subj "/CN=${1:-localhost}" \
    -addext "subjectAltName=DNS:${1:-localhost}" -keyout "$made/tls/privkey.pem" -out "$made/tls/fullchain.pem" 2> "$made/log" ||
    { cat "$made/log" >&2; exit 1; }
rm "$made/log"
chmod 0644 "$made/tls/privkey.pem"
# A full disk or a failed program leaves a file without its password.
for file in superuser monitor grafana owner.conf service.conf console.conf events.conf accounts.conf; do
    grep -Eq '^(password=)?[0-9a-f]{48}$' "$made/$file" || { echo "secrets: could not write $file" >&2; exit 1; }
done
mv -T "$made" secrets
