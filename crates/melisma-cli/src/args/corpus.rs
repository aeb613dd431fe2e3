//! Flags of `melisma encode` for corpora.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::input::InputArgs;

/// Flags that need more than one audio file.
#[derive(Debug, Args)]
#[command(next_help_heading = "Corpora")]
pub struct CorpusArgs {
    /// A CSV or TSV table with the texts of the files, or JSON lines whose keys are the columns
    #[arg(long, value_name = "FILE", requires = "text_column")]
    pub metadata: Option<PathBuf>,
    /// The column with the texts: a name in the first line, or a number counted from 1
    #[arg(long, value_name = "N|NAME", requires = "metadata")]
    pub text_column: Option<String>,
    /// The column with the file names [default: path, or the first]
    #[arg(long, value_name = "N|NAME", requires = "metadata")]
    pub path_column: Option<String>,
    /// Columns of the table that become columns of the corpus, or keys of its lines, by their names
    #[arg(long, value_name = "NAME,...", requires = "metadata", value_delimiter = ',')]
    pub keep_column: Vec<String>,
    /// The column with the speakers: texts begin with "SPEAKER: ", and the corpus has a column source
    #[arg(long, value_name = "N|NAME", requires = "metadata")]
    pub speaker_column: Option<String>,
    /// Leave out files without a text
    #[arg(long)]
    pub require_text: bool,
    #[command(flatten)]
    pub files: InputArgs,
    /// Drop frames whose first code repeats that of the frame before; .jsonl only
    #[arg(long)]
    pub drop_repeats: bool,
    /// Encode part I of N, counted from 1
    #[arg(long, value_name = "I/N")]
    pub shard: Option<String>,
    /// skip: list files that fail and go on; fail: stop at the first
    #[arg(long, value_name = "POLICY", default_value = "skip", value_parser = PossibleValuesParser::new(["skip", "fail"]))]
    pub on_error: String,
}

impl CorpusArgs {
    /// Returns whether a flag was given that single files do not have.
    pub fn is_used(&self) -> bool {
        self.metadata.is_some()
            || self.require_text
            || self.files.is_used()
            || self.drop_repeats
            || self.shard.is_some()
            || self.on_error != "skip"
    }
}
