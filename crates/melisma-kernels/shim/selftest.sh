#!/bin/sh
# Builds the fake libraries and runs the self-test: as it is, then with threads in reverse order, fenced memory and late work.
# usage: selftest.sh [LIBDIR], where build.sh has built them already
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
libraries=${1:-$work}
[ $# -eq 1 ] || "$here/build.sh" "$work"
${CXX:-g++} -std=c++17 -O1 -Wall -Wextra -o "$work/selftest" "$here/selftest.cpp" -ldl
run() { "$work/selftest" "$libraries" "$here/selftest.cu" "$here/../src/device/cuda/device.cuh"; }
run
MELISMA_SHIM_ORDER=reverse MELISMA_SHIM_FENCE=1 MELISMA_SHIM_LATE=1 run
