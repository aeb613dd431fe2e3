//! Crates depend on each other only along the chains in `docs/ARCHITECTURE.md`, such as `melisma-py
//! -> melisma`, and only the crates that the page names import the kernels.

use super::File;
use super::room::PAGE;
use std::collections::{BTreeMap, BTreeSet};

const ARROW: &str = "->";
const KERNELS: &str = "melisma-kernels";
const KERNELS_SENTENCE: &str = "import kernels";

type Edges<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

pub fn problems(files: &[File]) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else { return vec![format!("{PAGE}: missing")] };
    let edges = chains(&page.text);
    let importers = importers(&page.text);
    if edges.is_empty() || importers.is_empty() {
        return vec![format!("{PAGE}: has no chains of crates, or no sentence on those that {KERNELS_SENTENCE}")];
    }
    let mut found = Vec::new();
    for file in files {
        let Some((krate, rest)) = file.path.strip_prefix("crates/").and_then(|path| path.split_once('/')) else {
            continue;
        };
        if rest == "Cargo.toml" {
            for dependency in dependencies(&file.text) {
                let listed = edges.get(krate).is_some_and(|allowed| allowed.contains(dependency));
                if !listed || dependency == KERNELS && !importers.contains(krate) {
                    found.push(format!("{}: depends on `{dependency}`, which {PAGE} does not list", file.path));
                }
            }
        }
        let outer = !importers.contains(krate) || !rest.starts_with("src/");
        let imports = |text: &str| text.contains(concat!("melisma_", "kernels::"));
        if file.has_suffix(&["rs"]) && krate != KERNELS && krate != "melisma-bench" && outer && imports(&file.text) {
            found.push(format!("{}: imports {KERNELS}; use what `melisma` exports", file.path));
        }
    }
    found
}

/// Returns, for each crate in the lines with arrows, all crates to its right.
fn chains(page: &str) -> Edges<'_> {
    let mut edges = Edges::new();
    for line in page.lines().filter(|line| line.starts_with("melisma") && line.contains(ARROW)) {
        let stations: Vec<Vec<&str>> = line
            .split(ARROW)
            .map(|station| station.split(',').filter_map(|name| name.split_whitespace().next()).collect())
            .collect();
        for (at, station) in stations.iter().enumerate() {
            for name in station {
                edges.entry(name).or_default().extend(stations[at + 1..].iter().flatten());
            }
        }
    }
    edges
}

/// Returns the crates in the sentence about importing kernels.
fn importers(page: &str) -> BTreeSet<&str> {
    let before = page.split(KERNELS_SENTENCE).next().filter(|before| before.len() < page.len()).unwrap_or_default();
    let sentence = before.rsplit("Only ").next().unwrap_or_default();
    sentence.split('`').skip(1).step_by(2).collect()
}

/// Returns the workspace crates under `[dependencies]`.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let lines = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let names = lines.take_while(|line| !line.starts_with('[')).filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| *name == "melisma" || name.starts_with("melisma-"))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const PAGE_TEXT: &str = "melisma-cli  ->  melisma  ->  melisma-kernels, melisma-models\n\nOnly `melisma` and `melisma-bench`\nimport kernels. `x`\n";

    fn count(path: &str, text: &str) -> usize {
        problems(&[file(PAGE, PAGE_TEXT), file(path, text)]).len()
    }

    #[test]
    fn crates_depend_on_those_to_their_right() {
        assert_eq!(
            count("crates/melisma-cli/Cargo.toml", "[dependencies]\nclap = \"4\"\nmelisma.workspace = true\n"),
            0
        );
        assert_eq!(count("crates/melisma/Cargo.toml", "[dependencies]\nmelisma-cli.workspace = true\n"), 1);
        assert_eq!(count("crates/melisma-new/Cargo.toml", "[dependencies]\nmelisma = { path = \"..\" }\n"), 1);
    }

    #[test]
    fn kernels_are_for_the_named_crates_alone() {
        assert_eq!(count("crates/melisma/Cargo.toml", "[dependencies]\nmelisma-kernels.workspace = true\n"), 0);
        assert_eq!(count("crates/melisma-cli/Cargo.toml", "[dependencies]\nmelisma-kernels.workspace = true\n"), 1);
        let import = concat!("use melisma_", "kernels::Device;");
        assert_eq!(count("crates/melisma/src/a.rs", import), 0);
        assert_eq!(count("crates/melisma/tests/a.rs", import), 1);
        assert_eq!(count("crates/melisma/examples/a.rs", import), 1);
        assert_eq!(problems(&[file(PAGE, "")]).len(), 1);
    }
}
