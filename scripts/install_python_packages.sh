#!/bin/sh
# Makes the virtual environment and puts this package with its extras into it, every version from constraints.txt or
# from the file named in its place.
# Usage: install_python_packages.sh PYTHON VENV [CONSTRAINTS]
set -eu

python=$1
venv=$2
constraints=${3:-constraints.txt}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

give_up() {
    echo "setup: $1" >&2
    exit 1
}

command -v "$python" >/dev/null || give_up "no $python on this machine; Penstock needs Python 3.11 or newer"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    give_up "Penstock needs Python 3.11 or newer and $python is $version; name another: make PYTHON=python3.11"

if [ ! -x "$venv/bin/pip" ]; then
    # Debian's Python comes without ensurepip, which venv needs.
    "$python" -c 'import ensurepip; ensurepip.version()' >/dev/null 2>&1 ||
        scripts/install_debian_packages.sh "python$version-venv"
    echo "setup: making $venv with Python $version"
    "$python" -m venv --clear "$venv" >"$log" 2>&1 || give_up "python -m venv failed: $(grep . "$log" | tail -n 1)"
fi

# Usage: pip_install WHAT ARGUMENT...
pip_install() {
    what=$1
    shift
    "$venv/bin/python" -m pip --disable-pip-version-check install --quiet "$@" >"$log" 2>&1 ||
        give_up "pip could not install $what: $(grep '^ERROR' "$log" | head -n 1)"
}

echo "setup: installing Python packages into $venv"
# pip first: the one that Debian ships has no --build-constraint. Named outright, since pip blames a
# conflict, not a silent registry, when it finds no version that a constraint allows.
pip_install "the pinned pip" "$(grep '^pip==' "$constraints")"
# venv brings a setuptools of its own; naming it here holds that one to its pin too.
pip_install "Penstock with its extras" --constraint "$constraints" --build-constraint "$constraints" \
    --editable '.[dev,pipeline,tools,web]' setuptools
