#!/bin/sh
# Runs tests on another Spark than that of constraints.txt, in a virtual environment of its own.
# Usage: test_on_spark.sh PYTHON VENV VERSION TEST...
set -eu

python=$1
venv=$2
version=$3
shift 3
constraints=$(mktemp)
trap 'rm -f "$constraints"' EXIT

sed "s/^pyspark==.*/pyspark==$version/" constraints.txt >"$constraints"
scripts/install_python_packages.sh "$python" "$venv" "$constraints"
"$venv/bin/python" -c "import pyspark; assert pyspark.__version__ == '$version', pyspark.__version__"
"$venv/bin/pytest" "$@"
