#!/bin/sh
# Writes constraints.txt anew: the newest versions that satisfy pyproject.toml, found in an empty environment.
# Usage: lock.sh PYTHON
set -eu

venv=$(mktemp -d)
trap 'rm -rf "$venv"' EXIT

"$1" -m venv "$venv"
pip() {
    "$venv/bin/python" -m pip --disable-pip-version-check "$@"
}
pip install --quiet --upgrade pip
# The newest Spark for which delta-spark and the Kafka connector exist; `make smoke-spark` tests the next one.
spark='pyspark<4.3'
# Not imported by us, but used by pip to build: hatchling and editables for this package, setuptools for pyspark.
pip install --quiet --upgrade --prefer-binary --editable '.[dev,fuzz,pipeline,tools,web]' hatchling editables setuptools \
    "$spark"
{
    echo "# Every Python package that set-up may install, at the version that the tests ran with. Made by: make lock"
    pip freeze --all --exclude-editable
} >"$venv/constraints.txt"
mv "$venv/constraints.txt" constraints.txt
