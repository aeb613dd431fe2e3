#!/usr/bin/env bash
# Runs the packed tests and benches on a machine with a GPU. Logs and figures go to $OUT, else to ./out.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: ./run.sh [--no-tests] [--all] [--sanitize] [--bench ROOM]... [TEST-FILTER]...

  --no-tests      run no tests
  --all           also run the tests that need no GPU
  --sanitize      also run the kernels' CUDA suites under compute-sanitizer memcheck
  --bench ROOM    also run `melisma bench ROOM`, figures to bench-ROOM.json
  TEST-FILTER     run only tests whose names contain one of these; `cuda` where none is given
TEXT
}

tests=1 all=0 sanitize=0 rooms=() filters=()
while (($#)); do
  case $1 in
    --no-tests) tests=0 ;;
    --all) all=1 ;;
    --sanitize) sanitize=1 ;;
    --bench) rooms+=("${2:?--bench needs a room}"); shift ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) filters+=("$1") ;;
  esac
  shift
done

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${OUT:-$PWD/out}
mkdir -p "$out"
out=$(cd "$out" && pwd)
((all || ${#filters[@]})) || filters=(cuda)
# An empty folder to work in: a test that looks for a file of the repository elsewhere than in files/ fails here.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
export MELISMA_TEST_FILES=$here/files
export MELISMA_CACHE_DIR=${MELISMA_CACHE_DIR:-$scratch/cache}

failed=()
attempt() { # NAME LOG COMMAND...
  local name=$1 log=$2
  shift 2
  echo "== $name" | tee -a "$log"
  "$@" 2>&1 | tee -a "$log" || failed+=("$name")
}

{
  nvidia-smi --query-gpu=name,driver_version,compute_cap,memory.total,clocks.max.sm,clocks.max.mem,power.limit \
    --format=csv || echo "nvidia-smi is missing or failed"
  uname -srm
  nproc
} 2>&1 | tee "$out/machine.txt"

: >"$out/tests.log"
if ((tests)); then
  for binary in "$here"/tests/*; do
    attempt "$(basename "$binary")" "$out/tests.log" \
      env REQUIRE_CUDA=1 "$binary" --test-threads=1 ${filters[@]+"${filters[@]}"}
  done
fi

if ((sanitize)); then
  if sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -n 1) &&
    [[ -n $sanitizer ]]; then
    : >"$out/sanitizer.log"
    attempt "memcheck" "$out/sanitizer.log" env REQUIRE_CUDA=1 \
      "$sanitizer" --tool memcheck --error-exitcode 1 "$here/tests/melisma-kernels" --test-threads=1 on_cuda
  else
    echo "SKIPPED memcheck: compute-sanitizer is not installed" | tee "$out/sanitizer.log"
  fi
fi

for room in ${rooms[@]+"${rooms[@]}"}; do
  echo "== bench $room"
  if "$here/melisma" bench "$room" --json >"$out/bench-$room.json"; then
    cat "$out/bench-$room.json"
  else
    failed+=("bench $room")
  fi
done

if ((${#failed[@]})); then
  printf 'FAILED: %s\n' "${failed[@]}"
  exit 1
fi
echo "all passed; logs in $out"
