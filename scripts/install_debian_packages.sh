#!/bin/sh
# Installs the named Debian packages that are not there yet, as root or by passwordless sudo; else says what to install.
set -eu

missing=
for package in "$@"; do
    dpkg -s "$package" 2>/dev/null | grep -q '^Status: install ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

give_up() {
    echo "setup: $1; install by hand:$missing" >&2
    exit 1
}

command -v apt-get >/dev/null || give_up "no apt-get on this machine"
if [ "$(id -u)" -eq 0 ]; then
    as_root="env"
elif sudo -n true 2>/dev/null; then
    as_root="sudo -n env"
else
    give_up "Debian packages need root or passwordless sudo"
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
    # Another apt may hold the lock on a machine that has just started: wait for it rather than fail.
    # shellcheck disable=SC2086  # as_root is one or several words on purpose
    $as_root DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@" </dev/null >"$log" 2>&1
}
install_missing() {
    # shellcheck disable=SC2086  # a list of names
    apt install --no-install-recommends $missing
}

echo "setup: installing Debian packages:$missing"
# The lists are fetched only when they are absent or stale, which is what a failed first try means.
install_missing || { apt update && install_missing; } ||
    give_up "apt-get failed ($(grep '^E:' "$log" | head -n 1))"

# Debian starts nginx on port 80 at once; the tests start their own, and nobody asked for that one.
case "$missing" in
*nginx*) if [ -d /run/systemd/system ]; then $as_root systemctl disable --now --quiet nginx || true; fi ;;
esac
