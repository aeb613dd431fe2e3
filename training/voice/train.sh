#!/bin/sh
# Starts reading aloud, the codec and the language model side by side on a machine with a GPU and 16 cores, and leaves.
#   train.sh TEXTS.json.gz FLITE_LIBRARIES WORK CODEC_SECONDS UNTIL_SECONDS
# Logs and results appear in WORK. The language model waits for the codec, which waits for some hours of clips.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
start=$here/../../crates/melisma-models/mini24/model.safetensors
mkdir -p "$3/clips"
export PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1
cd "$3"
setsid nice -n 10 python3 "$here/aloud.py" "$1" "$2" clips --workers 14 --seconds "$5" >aloud.log 2>&1 &
unset OMP_NUM_THREADS
setsid python3 "$here/codec.py" clips "$start" . --seconds "$4" >codec.log 2>&1 &
setsid python3 "$here/language.py" "$1" clips . . --until "$5" >language.log 2>&1 &
