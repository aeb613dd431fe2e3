#!/bin/sh
# Runs reading aloud, the codec and the language model side by side on a machine with a GPU and 16 cores, until all end.
#   train.sh TEXTS.json.gz FLITE_LIBRARIES WORK CODEC_SECONDS UNTIL_SECONDS
# Logs and results appear in WORK. The language model waits for the codec, which waits for some hours of clips.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
start=$here/../../crates/melisma-models/mini24/model.safetensors
mkdir -p "$3/clips"
export PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1
cd "$3"
setsid nice -n 10 python3 "$here/aloud.py" "$1" "$2" clips --workers 14 --seconds "$5" >aloud.log 2>&1 &
aloud=$!
unset OMP_NUM_THREADS
setsid python3 "$here/codec.py" clips "$start" . --seconds "$4" >codec.log 2>&1 &
codec=$!
setsid python3 "$here/language.py" "$1" clips . . --until "$5" >language.log 2>&1 &
language=$!
# Ends the others when one fails, which would wait for its results.
trap 'kill -- "-$aloud" "-$codec" "-$language" 2>/dev/null || true' EXIT
for process in "$aloud" "$codec" "$language"; do
  wait "$process" || { echo "training failed; the logs in $PWD say why" >&2; exit 1; }
done
