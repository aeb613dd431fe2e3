//! Links of the finished pages: each leads to a file of the site, and to a place in it.

use crate::tree::resolve;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The stylesheets, at the top of the site.
pub const STYLES: [&str; 2] = ["style.css", "site.css"];
const LINK: &str = " href=\"";
/// What a browser loads by itself.
const RESOURCES: [&str; 2] = [" src=\"", " srcset=\""];

/// Returns a line for each link to a file or an anchor that is not there, and for each resource from elsewhere.
pub fn problems(pages: &BTreeMap<PathBuf, String>, is_file: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (path, html) in pages {
        let resources = RESOURCES.into_iter().flat_map(|key| values(html, key)).map(|target| (target, true));
        for (target, loaded) in values(html, LINK).map(|target| (target, false)).chain(resources) {
            let good = match target.contains("://") || target.starts_with("mailto:") {
                true => !loaded,
                false => leads_somewhere(path, target, pages) || is_file(&full(path, target)),
            };
            if !good {
                found.push(format!("{}: `{target}`", path.display()));
            }
        }
    }
    found
}

fn leads_somewhere(page: &Path, target: &str, pages: &BTreeMap<PathBuf, String>) -> bool {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { page.to_path_buf() } else { full(page, file) };
    let is_style = STYLES.iter().any(|name| path == Path::new(name));
    let has = |html: &String| anchor.is_empty() || values(html, " id=\"").any(|id| id == anchor);
    is_style && anchor.is_empty() || pages.get(&path).is_some_and(has)
}

/// Returns the path of a link from the top of the site; empty where it leaves it.
fn full(page: &Path, target: &str) -> PathBuf {
    resolve(&page.parent().unwrap_or(Path::new("")).join(target)).unwrap_or_default()
}

/// Returns the values of an attribute, given with the space before it and the quote behind. Text has `<` as `&lt;`.
fn values<'a>(html: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    let tags = html.split('<').skip(1).filter_map(|rest| rest.split('>').next());
    tags.flat_map(move |tag| tag.split(key).skip(1)).filter_map(|rest| rest.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_files_and_anchors_of_the_site() {
        let check = |text: &str| {
            let other = (PathBuf::from("reference/b.html"), "<h2 id=\"x\">X</h2>".to_owned());
            let pages = BTreeMap::from([(PathBuf::from("a.html"), format!("<p id=\"y\">{text}")), other]);
            problems(&pages, |path| path == Path::new("files/c.png"))
        };
        for good in [
            "<a href=\"reference/b.html#x\">",
            "<a href=\"#y\">",
            "<a href=\"https://b\">",
            "<link href=\"style.css\">",
            "<img src=\"files/c.png\">",
            "<pre>&lt;audio src=\"https://b/c.mp3\"></pre>",
        ] {
            assert_eq!(check(good), [""; 0], "{good}");
        }
        for bad in ["href=\"b.html", "href=\"reference/b.html#y", "href=\"../a", "src=\"https://b/c.png", "src=\"d.png"]
        {
            assert_eq!(check(&format!("<a {bad}\">")).len(), 1, "{bad}");
        }
    }
}
