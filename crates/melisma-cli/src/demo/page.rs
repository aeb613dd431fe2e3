//! The page around the steps: a single file that loads nothing from elsewhere, with the look of the
//! server's page.

use std::time::Duration;

use melisma::Result;
use melisma::runtime::device::instruction_set;
use melisma::runtime::machine::Machine;
use melisma::text::html::escape;
use melisma::text::table::{Align, Table};
use melisma::text::{count, duration};
use melisma_server::page::STYLE;

use super::{Done, next};

/// A round button in the place of each player's own controls, and a picture that follows the sound.
const SCRIPT: &str = include_str!("page.js");

pub fn html(steps: &[Done]) -> Result<String> {
    let shown: String = steps.iter().filter(|step| !step.chapter.shown.is_empty()).map(section).collect();
    let folded: String = steps.iter().filter(|step| !step.chapter.folded.is_empty()).map(details).collect();
    let total: f64 = steps.iter().map(|step| step.seconds).sum();
    let (cores, isa) = (Machine::detect().cores as u64, instruction_set()?);
    let status = format!("a tour, made on this machine in {total:.1} s: {}, {isa}", count(cores, "core"));
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\" class=\"report\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Melisma: a tour</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header><h1>Melisma</h1><span class=\"status\">{}</span></header>\n<main>\n\
         <p class=\"lead\">Everything below was computed on this machine when this page was written. The commands run in \
         the page's folder, on the files beside it. Press play, look, then try them on your own files.</p>\n{shown}{}<details id=\"machine\"><summary>The machine, the settings and where the time \
         went</summary>\n{}{folded}</details>\n</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        escape(&status),
        next::html(),
        times(steps)
    ))
}

fn section(step: &Done) -> String {
    let (name, title, shown) = (escape(step.name), escape(&step.chapter.title), &step.chapter.shown);
    let device = step.chapter.device.as_ref().map(|device| format!("<p>Computed on {}.</p>\n", escape(device)));
    format!("<section id=\"{name}\">\n<h2>{title}</h2>\n{}{shown}</section>\n", device.unwrap_or_default())
}

fn details(step: &Done) -> String {
    format!("<h3>{}</h3>\n{}", escape(step.name), step.chapter.folded)
}

fn times(steps: &[Done]) -> String {
    let mut table = Table::new([("step", Align::Left), ("time", Align::Right)]);
    for step in steps {
        table.push([step.name.to_owned(), duration::show(Duration::from_secs_f64(step.seconds))]);
    }
    table.html()
}

/// Writes figures in large type, each with its words.
pub fn facts(facts: &[(String, &str)]) -> String {
    let one = |(figure, words): &(String, &str)| {
        format!("<div><dt>{}</dt><dd>{}</dd></div>", escape(words), escape(&figure.replace('-', "\u{2212}")))
    };
    format!("<dl class=\"facts\">{}</dl>\n", facts.iter().map(one).collect::<String>())
}

/// Returns commands that run in the folder of the page, on the files that the steps leave there.
pub fn commands(lines: &[&str]) -> String {
    format!("<pre>{}</pre>\n", escape(&lines.join("\n")))
}

/// Returns a number with commas between thousands.
pub fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let comma = |(at, digit): (usize, char)| {
        let separator = if at > 0 && (digits.len() - at).is_multiple_of(3) { "," } else { "" };
        format!("{separator}{digit}")
    };
    digits.chars().enumerate().map(comma).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let shown = [0, 999, 1000, 135_168, 1_000_000].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "135,168", "1,000,000"]);
    }
}
