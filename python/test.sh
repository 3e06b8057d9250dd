#!/bin/sh
# Installs a wheel into an empty virtual environment and runs the tests from there: python/test.sh dist/freehold-*.whl
set -eu
wheel=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$(dirname "$0")"
python3 -m venv "$folder/venv"
# The pip of an older Python knows no dependency groups.
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pip==26.3
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check --constraint constraints.txt --group test "$wheel"
# From elsewhere, so that the installed module is tested and not the one in this folder.
cp -r tests pyproject.toml ../docs/python.ipynb "$folder"
cd "$folder"
ls venv/lib/python3*/site-packages/freehold-*.dist-info/licenses/THIRD-PARTY >/dev/null
venv/bin/python -m mypy --config-file pyproject.toml --cache-dir mypy --package freehold
venv/bin/python -m pytest --quiet --no-header -p no:cacheprovider tests
venv/bin/pip uninstall --quiet --yes freehold
left=$(find venv -iname '*freehold*')
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }
