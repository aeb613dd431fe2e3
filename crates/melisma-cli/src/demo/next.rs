//! What to try after the tour, with files of one's own.

use melisma::text::html::escape;

/// What somebody has, and the command for it. Names in capitals are theirs.
const NEXT: [(&str, &str); 9] = [
    ("a folder of recordings, for spectrograms", "melisma dataset build RECORDINGS -o train.h5 --segment 10s"),
    (
        "recordings and their texts, for tokens",
        "melisma encode RECORDINGS -o train.jsonl --metadata TABLE.csv --text-column text --model CODEC",
    ),
    ("a text", "melisma speak --file TEXT.txt -o text.mp3"),
    (
        "a language model that speaks, and its codec",
        "melisma speak \"Hello!\" -o hello.wav --voice-model VOICE --model CODEC",
    ),
    ("a MIDI file", "melisma synth SONG.mid -o song.wav --stems stems"),
    ("a taste in music", "melisma synth preset:focus -o focus.flac --seconds 600 --key A --tempo 70"),
    ("the weights of a model", "melisma pack WEIGHTS.safetensors"),
    ("an ONNX model", "melisma optimize MODEL.onnx --input NAME=1x80x100"),
    ("clients", "melisma serve"),
];

/// Returns the last section of the page.
pub fn html() -> String {
    let items = NEXT.map(|(what, command)| format!("<li>{}: <code>{}</code></li>\n", escape(what), escape(command)));
    format!(
        "<section id=\"next\">\n<h2>Next, with your own files</h2>\n<p>Names in capitals are yours. \
         <code>melisma COMMAND --help</code> explains every option, <code>melisma doctor</code> shows what this machine \
         has, and the folder <code>docs/guide</code> of the repository has a page for each of these.</p>\n<ul>\n{}</ul>\n</section>\n",
        items.concat()
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn every_command_is_one() {
        for (_, command) in NEXT {
            let parsed = Cli::try_parse_from(command.split(' '));
            assert!(parsed.is_ok(), "{command}: {}", parsed.err().map_or(String::new(), |error| error.to_string()));
        }
    }
}
