//! The settings of the command line in `melisma.yaml`, its variables and global flags.

use std::path::PathBuf;

use melisma::trace::Sort;

melisma::section! {
    /// How a command reports what it does.
    Settings {}
    "trace" trace: Option<PathBuf> = None, "Where to write a Chrome trace.";
    "profile_table" profile_table: bool = false, "Whether to print the table of spans.";
    "profile_sort" profile_sort: Sort = Sort::SelfTime, "The column that the table of spans is sorted by.";
    "profile_rows" profile_rows: u64 = 20, "How many rows the table of spans has.";
    "profile_kernels" profile_kernels: bool = false, "Whether the kernels of recorded graphs are timed one by one.";
    "quiet" quiet: bool = false, "Whether to print errors only.";
    "verbose" verbose: bool = false, "Whether to print more details.";
}

impl Settings {
    /// Returns how many rows the table of spans has.
    pub fn rows(&self) -> usize {
        usize::try_from(self.profile_rows.value).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use melisma::config::{Config, Layers, Section, Sources};
    use melisma::speak;
    use melisma_server::upstream;

    #[test]
    fn the_library_takes_the_keys_of_fronts_for_no_typing_errors() {
        for key in [Settings::KEYS, melisma_server::Config::KEYS, upstream::Config::KEYS, speak::Config::KEYS].concat()
        {
            let sources = Sources::default().with_flags(vec![(key, "--flag", "x".to_owned())]);
            Config::load(&sources).unwrap();
        }
    }

    #[test]
    fn wrong_values_are_refused_with_their_place() {
        let refused = |key, text: &str| {
            let sources = Sources::default().with_flags(vec![(key, "--flag", text.to_owned())]);
            let layers = Layers::read(&sources).unwrap();
            let error = layers.section::<Settings>().err().or_else(|| layers.section::<upstream::Config>().err());
            error.unwrap().to_string()
        };
        assert_eq!(refused("quiet", "maybe"), "--flag: expected true or false, found the text `maybe`");
        assert_eq!(refused("upstream.api", "x"), "--flag: expected completions or chat, found the text `x`");
    }
}
