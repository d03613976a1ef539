# Says what is missing before pip fails with its own message. Usage: sh requirements/check-python.sh PYTHON
fail() {
    echo "sepu: $1" >&2
    exit 1
}
test -w . || fail "this directory is not writable; clone the project where you may write"
command -v "$1" >/dev/null || fail "there is no $1; install Python 3.11 or later, or name one: make PYTHON=python3.12"
"$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$1 is older than 3.11; name a newer one: make PYTHON=python3.12"
"$1" -c 'import ensurepip, venv' 2>/dev/null || fail "$1 cannot make virtual environments; on Debian: apt install python3-venv"
if test -n "$CC"; then
    command -v "${CC%% *}" >/dev/null || fail "CC names a compiler that is not there: $CC"
else
    command -v gcc >/dev/null || command -v cc >/dev/null || fail "there is no C compiler; on Debian: apt install gcc libc6-dev"
fi
"$1" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' ||
    fail "the headers of $1 are missing; on Debian: apt install python3-dev"
