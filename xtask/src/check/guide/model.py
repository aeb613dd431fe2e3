"""Stand-ins for what readers of the guide bring: `python model.py REPOSITORY FOLDER`.

`orpheus/` has the format of Orpheus and `snac_24khz/` the codes of its codec, both small and with random weights: they
speak noise. `bin/` has the programs that blocks of these models call.
"""

import json
import pathlib
import shutil
import sys

repository, folder = map(pathlib.Path, sys.argv[1:])
sys.path.insert(0, str(repository / "crates/melisma-py/tests"))

import voice  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402

# Orpheus' vocabulary, and two of its ids: `<custom_token_0>` and the end of speech.
N_TOKENS, CUSTOM, END = 156_940, 128_256, 128_258
PROGRAMS = {
    # Downloads nothing: the folder is there.
    "hf": 'for folder; do :; done\ntest -f "$folder/config.json" && test -f "$folder/pytorch_model.bin"\n',
    # Writes ten frames of tokens.
    "my-model": "seq 0 69 | awk '{ printf \"<custom_token_%d>\", 10 + 4096 * ($1 % 7) + $1 }'\n",
    # Plays a pipe of WAV to nobody.
    "aplay": 'test "$(head -c 4)" = RIFF && cat > /dev/null\n',
}


def main():
    codec, orpheus, programs = folder / "snac_24khz", folder / "orpheus", folder / "bin"
    codec.mkdir()
    for name in ("config.json", "pytorch_model.bin"):
        shutil.copy(repository / "golden/snac/tiny24" / name, codec)

    voice.write(orpheus, n_tokens=N_TOKENS, custom=CUSTOM)
    # Orpheus has neither; transformers, which trains it, reads plain weights.
    (orpheus / "speak.yaml").unlink()
    (orpheus / "model.packed.safetensors").unlink()
    weights = voice.weights(N_TOKENS, 0)
    weights["lm_head.weight"][END, 0] = 1.6
    save_file(weights, orpheus / "model.safetensors", {"format": "pt"})
    (orpheus / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))

    programs.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text("#!/bin/sh\n" + text)
        (programs / name).chmod(0o755)


main()
