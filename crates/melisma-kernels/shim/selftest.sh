#!/bin/sh
# Builds the fake libraries and runs the self-test, with threads in order and in reverse.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$here/build.sh" "$work"
${CXX:-g++} -std=c++17 -O1 -Wall -Wextra -o "$work/selftest" "$here/selftest.cpp" -ldl
for order in forward reverse; do
  MELISMA_SHIM_ORDER=$order "$work/selftest" "$work" "$here/selftest.cu" "$here/../src/cuda/device.cuh"
done
