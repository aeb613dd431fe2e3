//! What is around a page: its head, the list of all pages, its own headings, and the next page.

use super::link::STYLES;
use super::navigation::Navigation;
use super::page::Page;
use super::{HOME, address, relative};
use std::path::Path;

/// Returns the whole HTML of a page.
pub fn html(page: &Page, navigation: &Navigation) -> String {
    let own = address(&page.path);
    let link = |path: &Path| relative(&own, &address(path));
    let styles: String =
        STYLES.map(|name| format!("<link rel=\"stylesheet\" href=\"{}\">\n", relative(&own, Path::new(name)))).concat();
    let home = link(Path::new(HOME));
    let mut pages = String::new();
    for group in &navigation.groups {
        pages += &format!("<h2>{}</h2>\n<ul>\n", escaped(&group.name));
        for (path, title) in &group.pages {
            let current = if *path == page.path { " aria-current=\"page\"" } else { "" };
            pages += &format!("<li><a href=\"{}\"{current}>{}</a></li>\n", link(path), escaped(title));
        }
        pages += "</ul>\n";
    }
    let sections: Vec<_> = page.headings.iter().filter(|heading| heading.level == 2).collect();
    let mut contents = String::new();
    if sections.len() > 1 {
        contents += "<nav class=\"contents\" aria-label=\"On this page\">\n<ul>\n";
        for heading in sections {
            contents += &format!("<li><a href=\"#{}\">{}</a></li>\n", heading.id, escaped(&heading.text));
        }
        contents += "</ul>\n</nav>\n";
    }
    let mut onward = String::new();
    for (neighbour, word) in navigation.neighbours(&page.path).into_iter().zip(["Before", "Next"]) {
        if let Some((path, title)) = neighbour {
            onward += &format!("<a href=\"{}\">{word}: {}</a>\n", link(path), escaped(title));
        }
    }
    let title = escaped(&page.title);
    let source = escaped(&page.path.display().to_string());
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title} - Melisma</title>\n{styles}</head>\n<body>\n\
         <a class=\"skip\" href=\"#content\">Skip to the text</a>\n\
         <header><a class=\"name\" href=\"{home}\">Melisma</a><a class=\"all\" href=\"#pages\">All pages</a></header>\n\
         <div class=\"frame\">\n<main id=\"content\">\n{contents}{}\n<footer>\n{onward}<small>{source}</small>\n</footer>\n\
         </main>\n<nav class=\"pages\" id=\"pages\" aria-label=\"All pages\">\n{pages}</nav>\n</div>\n</body>\n</html>\n",
        page.body
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}
