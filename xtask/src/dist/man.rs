//! Man pages, one a command, made from what `--help` prints.
//!
//! # Why our own, and not `clap_mangen`?
//!
//! It would be compiled into the program, which has the commands. `--help` has all that a page says.

use anyhow::{Context, Result};
use std::fmt::Write;

/// A man page.
pub struct Page {
    /// Its file name, as in `melisma-dataset-build.1`.
    pub file: String,
    pub text: String,
}

/// Returns the pages of the program and of every command, where `help` returns what
/// `melisma COMMAND... --help` prints.
pub fn pages(help: &dyn Fn(&[String]) -> Result<String>, edition: &Edition) -> Result<Vec<Page>> {
    let mut pages = Vec::new();
    collect(&[], help, edition, &mut pages)?;
    Ok(pages)
}

fn collect(
    words: &[String],
    help: &dyn Fn(&[String]) -> Result<String>,
    edition: &Edition,
    pages: &mut Vec<Page>,
) -> Result<()> {
    let name = name(words);
    let text = help(words)?;
    let help_of_it = Help::parse(&text).with_context(|| format!("the help of {name}"))?;
    pages.push(Page { file: format!("{name}.1"), text: help_of_it.page(words, edition) });
    for command in help_of_it.commands() {
        collect(&[words, &[command.to_owned()]].concat(), help, edition, pages)?;
    }
    Ok(())
}

/// What the head and the foot of a page say.
pub struct Edition {
    pub version: String,
    pub date: String,
}

/// Returns the name of a page, as in `melisma-dataset-build`.
fn name(words: &[String]) -> String {
    words.iter().fold("melisma".to_owned(), |name, word| format!("{name}-{word}"))
}

/// The heading of the options that every command has; only the first page lists them.
const GLOBAL: &str = "Global options";

#[derive(Debug, Default)]
struct Help {
    about: String,
    usage: Vec<String>,
    sections: Vec<Section>,
    prose: Vec<String>,
    examples: Vec<String>,
}

/// A heading, and terms with their meanings.
#[derive(Debug)]
struct Section {
    heading: String,
    items: Vec<(String, String)>,
}

impl Section {
    /// Returns whether its terms are commands.
    fn is_commands(&self) -> bool {
        self.heading != "Arguments" && !self.items.iter().any(|(term, _)| term.starts_with('-'))
    }
}

impl Help {
    fn parse(text: &str) -> Result<Self> {
        let mut help = Self::default();
        for block in text.trim_end().split("\n\n") {
            let lines: Vec<&str> = block.lines().collect();
            let Some(first) = lines.first() else { continue };
            if let Some(usage) = first.strip_prefix("Usage: ") {
                help.usage =
                    [usage].into_iter().chain(lines[1..].iter().map(|line| line.trim())).map(str::to_owned).collect();
            } else if help.usage.is_empty() {
                help.about = lines.join(" ");
            } else if *first == "Examples:" {
                help.examples = lines[1..].iter().map(|line| line.trim().to_owned()).collect();
            } else if let Some(heading) = first.strip_suffix(':').filter(|_| lines.len() > 1) {
                help.sections.push(Section { heading: heading.to_owned(), items: items(&lines[1..]) });
            } else {
                help.prose.push(lines.join(" "));
            }
        }
        (!help.usage.is_empty()).then_some(help).context("it has no line `Usage: `")
    }

    fn commands(&self) -> impl Iterator<Item = &str> {
        let items = self.sections.iter().filter(|section| section.is_commands()).flat_map(|section| &section.items);
        items.map(|(term, _)| &**term).filter(|term| *term != "help")
    }

    fn page(&self, words: &[String], edition: &Edition) -> String {
        let name = name(words);
        let mut page = format!(
            ".TH \"{}\" 1 \"{}\" \"melisma {}\" \"Melisma\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n",
            escaped(&name.to_uppercase()),
            escaped(&edition.date),
            escaped(&edition.version),
            escaped(&name),
            line(&self.about),
        );
        let command = name.replace('-', " ");
        let usage = self.usage.iter().map(|usage| {
            let rest = usage.strip_prefix(&command).unwrap_or(usage);
            format!("\\fB{}\\fR{}\n", escaped(&command), escaped(rest))
        });
        page += &usage.collect::<Vec<_>>().join(".br\n");
        if !self.prose.is_empty() {
            let prose: Vec<_> = self.prose.iter().map(|text| format!("{}\n", line(text))).collect();
            write_heading(&mut page, "Description");
            page += &prose.join(".PP\n");
        }
        for section in &self.sections {
            write_heading(&mut page, &section.heading);
            if section.heading == GLOBAL && !words.is_empty() {
                page += "Every command has the global options, which\n.BR melisma (1)\nlists.\n";
                continue;
            }
            for (term, text) in &section.items {
                let _ = write!(page, ".TP\n{}\n{}\n", marked(term), line(text));
            }
        }
        if !self.examples.is_empty() {
            write_heading(&mut page, "Examples");
            let examples = self.examples.iter().map(|example| format!("{}\n", line(example)));
            page = examples.fold(page + ".nf\n", |page, example| page + &example) + ".fi\n";
        }
        let parent = words.split_last().map(|(_, parent)| self::name(parent));
        let children = self.commands().map(|command| format!("{name}-{command}"));
        let others: Vec<_> =
            parent.into_iter().chain(children).map(|other| format!(".BR {} (1)", escaped(&other))).collect();
        if !others.is_empty() {
            write_heading(&mut page, "See also");
            page += &others.join(",\n");
            page.push('\n');
        }
        page
    }
}

fn write_heading(page: &mut String, heading: &str) {
    let _ = writeln!(page, ".SH \"{}\"", escaped(&heading.to_uppercase()));
}

/// Returns the terms of a section and their meanings; lines that go on with a meaning are indented further than terms.
fn items(lines: &[&str]) -> Vec<(String, String)> {
    const MAX_INDENT: usize = 6;
    let mut items: Vec<(String, String)> = Vec::new();
    for line in lines {
        let text = line.trim_start();
        match items.last_mut() {
            Some((_, meaning)) if line.len() - text.len() > MAX_INDENT => {
                if !meaning.is_empty() {
                    meaning.push(' ');
                }
                meaning.push_str(text);
            }
            _ => {
                let (term, meaning) = text.split_once("  ").unwrap_or((text, ""));
                items.push((term.to_owned(), meaning.trim_start().to_owned()));
            }
        }
    }
    items
}

/// Returns a term with its names bold and its values in italics.
fn marked(term: &str) -> String {
    let words = term.split(' ').map(|word| match word.starts_with(['<', '[']) {
        true => format!("\\fI{}\\fR", escaped(word)),
        false => format!("\\fB{}\\fR", escaped(word)),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns a line of text, whose first sign is never read as a command of troff.
fn line(text: &str) -> String {
    let text = escaped(text);
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('"', "\\(dq")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;
    use std::fs;

    fn edition() -> Edition {
        Edition { version: "0.1.0".into(), date: "2026-01-31".into() }
    }

    fn page(text: &str, words: &[&str]) -> String {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        Help::parse(text).unwrap().page(&words, &edition())
    }

    const HELP: &str = "Does it\n\nUsage: melisma do [OPTIONS] <IN>\n       melisma do <COMMAND>\n\nCommands:\n  \
        over   Again\n  help   Print this\n\nOptions:\n  -o, --output <OUT>  Where it\n                      goes\n      \
        --a-very-long-name <NAME>\n                      Its name\n\nGlobal options:\n  -q, --quiet  Less\n\n.json is \
        read.\nSo is \\n.\n\nExamples:\n  melisma do a -o 'b'\n";

    #[test]
    fn a_page_has_all_parts_of_the_help() {
        assert_eq!(
            page(HELP, &["do"]),
            ".TH \"MELISMA\\-DO\" 1 \"2026\\-01\\-31\" \"melisma 0.1.0\" \"Melisma\"\n\
            .SH NAME\nmelisma\\-do \\- Does it\n\
            .SH SYNOPSIS\n\\fBmelisma do\\fR [OPTIONS] <IN>\n.br\n\\fBmelisma do\\fR <COMMAND>\n\
            .SH \"DESCRIPTION\"\n\\&.json is read. So is \\en.\n\
            .SH \"COMMANDS\"\n.TP\n\\fBover\\fR\nAgain\n.TP\n\\fBhelp\\fR\nPrint this\n\
            .SH \"OPTIONS\"\n.TP\n\\fB\\-o,\\fR \\fB\\-\\-output\\fR \\fI<OUT>\\fR\nWhere it goes\n\
            .TP\n\\fB\\-\\-a\\-very\\-long\\-name\\fR \\fI<NAME>\\fR\nIts name\n\
            .SH \"GLOBAL OPTIONS\"\nEvery command has the global options, which\n.BR melisma (1)\nlists.\n\
            .SH \"EXAMPLES\"\n.nf\nmelisma do a \\-o \\(aqb\\(aq\n.fi\n\
            .SH \"SEE ALSO\"\n.BR melisma (1),\n.BR melisma\\-do\\-over (1)\n"
        );
    }

    #[test]
    fn every_command_has_a_page() {
        let help = |words: &[String]| {
            Ok(match words.len() {
                0 => "All\n\nUsage: melisma\n\nWork:\n  do    Does it\n  rest  Rests\n".to_owned(),
                1 if words[0] == "do" => HELP.to_owned(),
                _ => "Again\n\nUsage: melisma\n".to_owned(),
            })
        };
        let files: Vec<_> = pages(&help, &edition()).unwrap().into_iter().map(|page| page.file).collect();
        assert_eq!(files, ["melisma.1", "melisma-do.1", "melisma-do-over.1", "melisma-rest.1"]);
    }

    #[test]
    fn a_text_without_usage_is_refused() {
        let Err(error) = pages(&|_| Ok("error: no".to_owned()), &edition()) else { panic!("it passed") };
        assert!(format!("{error:#}").contains("the help of melisma: it has no line"), "{error:#}");
    }

    /// The help of the program, as its own tests have it.
    #[test]
    fn no_option_of_a_command_is_lost() {
        let files = tree::files(&tree::root().join("crates/melisma-cli/tests/golden")).unwrap();
        let mut options = 0;
        for file in files {
            let stem = file.file_stem().unwrap().to_str().unwrap();
            let Some(words) = stem.strip_prefix("help") else { continue };
            let words: Vec<&str> = words.split('_').filter(|word| !word.is_empty()).collect();
            let text = fs::read_to_string(&file).unwrap();
            let own = if words.is_empty() { &*text } else { text.split("\nGlobal options:\n").next().unwrap() };
            let made = page(&text, &words);
            for option in own
                .lines()
                .filter(|line| !line.starts_with("       "))
                .filter_map(|line| line.trim_start().strip_prefix('-'))
            {
                let option = option.split("  ").next().unwrap();
                let marked = marked(&format!("-{option}"));
                assert!(made.contains(&format!(".TP\n{marked}\n")), "{stem}: -{option}\n{made}");
                options += 1;
            }
        }
        assert!(options > 150, "{options}");
    }
}
