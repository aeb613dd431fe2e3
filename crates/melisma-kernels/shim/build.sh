#!/bin/sh
# Builds the fake libcuda, libnvrtc, libcublasLt, libnvtx3interop and libnvidia-ml into OUTDIR.
# usage: build.sh OUTDIR
set -eu
[ $# -eq 1 ] || { echo "usage: build.sh OUTDIR" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cxx=${CXX:-g++}
flags="-std=c++17 -O2 -Wall -Wextra -fPIC -fvisibility=hidden -shared"
cat "$here/kernel/context.h" "$here/kernel/runtime.h" "$here/kernel/math.h" | grep -v '^#pragma once' > "$work/shim_runtime.h"

cd "$here"
$cxx $flags -Wl,-soname,libnvrtc.so.13 -Wa,-I"$work" -o "$work/libnvrtc.so.13" nvrtc.cpp &
nvrtc=$!
$cxx $flags -Wl,-soname,libcuda.so.1 -o "$work/libcuda.so.1" device.cpp memory.cpp stream.cpp graph.cpp module.cpp fiber.cpp -ldl -lpthread
$cxx $flags -Wl,-soname,libcublasLt.so.13 -Wl,-rpath,'$ORIGIN' -o "$work/libcublasLt.so.13" cublaslt.cpp "$work/libcuda.so.1"
$cxx $flags -Wl,-soname,libnvtx3interop.so.1 -o "$work/libnvtx3interop.so.1" nvtx.cpp
$cxx $flags -Wl,-soname,libnvidia-ml.so.1 -Wl,-rpath,'$ORIGIN' -o "$work/libnvidia-ml.so.1" nvml.cpp "$work/libcuda.so.1"
wait $nvrtc
# Renamed into place, so that a process which has the old ones loaded is not disturbed.
for library in libcuda.so.1 libnvrtc.so.13 libcublasLt.so.13 libnvtx3interop.so.1 libnvidia-ml.so.1; do
  cp "$work/$library" "$out/.$library.new"
  mv "$out/.$library.new" "$out/$library"
  ln -sf "$library" "$out/${library%.so.*}.so"
done
