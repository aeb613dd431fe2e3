//! What is around a page: its head, the list of all pages with its own sections, and the next page.

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
    let mut sections = String::new();
    for heading in page.headings.iter().filter(|heading| heading.level == 2) {
        sections += &format!("<li><a href=\"#{}\">{}</a></li>\n", heading.id, escaped(&heading.text));
    }
    let mut pages = String::new();
    for group in &navigation.groups {
        pages += &format!("<h2>{}</h2>\n<ul>\n", escaped(&group.name));
        for (path, title) in &group.pages {
            let (current, below) = match *path == page.path {
                true => (" aria-current=\"page\"", format!("\n<ul>\n{sections}</ul>\n")),
                false => ("", String::new()),
            };
            pages += &format!("<li><a href=\"{}\"{current}>{}</a>{below}</li>\n", link(path), escaped(title));
        }
        pages += "</ul>\n";
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
         <div class=\"frame\">\n<main id=\"content\">\n{}\n<footer>\n{onward}<small>{source}</small>\n</footer>\n\
         </main>\n<nav class=\"pages\" id=\"pages\" aria-label=\"All pages\">\n{pages}</nav>\n</div>\n</body>\n</html>\n",
        page.body
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::Target;
    use super::*;
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    #[test]
    fn a_page_has_the_list_of_pages_with_its_own_sections() {
        let read = |path: &str, text: &str| Page::read(path.into(), text, |_| Target::Page).unwrap();
        let home = read(HOME, "# Guide\n\n## Rooms\n\n[A](a.md) [B](b.md)\n");
        let a = read("docs/guide/a.md", "# A & a\n\n## One\n\n### Two\n");
        let b = read("docs/guide/b.md", "# B\n\n## Three\n");
        let pages = [home, a, b].map(|page| (page.path.clone(), page));
        let pages: BTreeMap<PathBuf, Page> = pages.into();
        let html = html(&pages[Path::new("docs/guide/a.md")], &Navigation::of(&pages).unwrap());
        let entry =
            "<a href=\"a.html\" aria-current=\"page\">A &amp; a</a>\n<ul>\n<li><a href=\"#one\">One</a></li>\n</ul>";
        assert!(html.contains(entry), "{html}");
        assert!(html.contains("<li><a href=\"b.html\">B</a></li>"), "{html}");
        assert!(html.contains("<a href=\"b.html\">Next: B</a>") && !html.contains("Before:"), "{html}");
        assert!(html.contains("<title>A &amp; a - Melisma</title>") && !html.contains("#three"), "{html}");
    }
}
