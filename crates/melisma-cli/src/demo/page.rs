//! The page around the steps: a single file that loads nothing from elsewhere.

use std::time::Duration;

use melisma::text::duration;
use melisma::text::table::escape;

use super::Done;

const STYLE: &str = include_str!("page.css");

pub fn html(device: &str, steps: &[Done]) -> String {
    let section = |step: &Done| {
        let time = duration::show(Duration::from_secs_f64(step.seconds));
        format!(
            "<section id=\"{name}\">\n<h2>{name} <small>{time}</small></h2>\n{html}</section>\n",
            name = escape(step.name),
            html = step.html
        )
    };
    let sections: String = steps.iter().map(section).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Melisma: demo report</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>Melisma</h1>\n<p>Every figure on this page was measured in this run, on <code>{}</code>.</p>\n\
         {sections}</body>\n</html>\n",
        escape(device)
    )
}
