#!/bin/sh
# Makes an environment for each tool that the benchmark compares with, under benchmarks/.venvs.
# What cannot be installed is left out of the benchmark, which says so.
set -u
directory=$(dirname "$0")/../.venvs
python=${PYTHON:-python3}

make_environment() {
    name=$1
    shift
    "$python" -m venv "$directory/$name" &&
        "$directory/$name/bin/python" -m pip install --quiet --disable-pip-version-check "$@" ||
        { echo "rivals: $name could not be installed" >&2; rm -rf "${directory:?}/$name"; }
}

make_environment adbc adbc-driver-sqlite adbc-driver-manager pyarrow
make_environment duckdb 'duckdb==1.5.*' duckdb-extension-sqlite-scanner
make_environment hta 'HolisticTraceAnalysis==0.5.*'
make_environment nsys-ai nsys-ai 'duckdb==1.5.*' duckdb-extension-sqlite-scanner

# nsys-ai downloads DuckDB's extension into the home directory; here it finds the one from PyPI.
for versions in "$directory"/nsys-ai/lib/python*/site-packages/duckdb_extension_sqlite_scanner/extensions; do
    [ -d "$versions" ] || continue
    platform=$("$directory/nsys-ai/bin/python" -c \
        'import duckdb; print(duckdb.sql("PRAGMA platform").fetchone()[0])')
    for version in "$versions"/*; do
        home="$directory/home/.duckdb/extensions/$(basename "$version")/$platform"
        mkdir -p "$home" && cp "$version"/*.duckdb_extension "$home"
    done
done
