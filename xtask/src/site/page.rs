//! One Markdown page as HTML: anchors of its headings, links to other files of the site, what a block needs.

use super::{Target, address, relative};
use crate::check::anchor;
use crate::tree::resolve;
use anyhow::{Result, bail};
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A heading below the title.
#[derive(Debug, PartialEq, Eq)]
pub struct Heading {
    pub level: u8,
    pub id: String,
    pub text: String,
}

/// A link to another page, and the heading above it.
#[derive(Debug, PartialEq, Eq)]
pub struct Reference {
    pub heading: String,
    pub page: PathBuf,
}

pub struct Page {
    /// From the repository's root.
    pub path: PathBuf,
    pub title: String,
    pub headings: Vec<Heading>,
    pub references: Vec<Reference>,
    pub body: String,
    /// Pages and other files that it links to.
    pub pages: BTreeSet<PathBuf>,
    pub files: BTreeSet<PathBuf>,
}

impl Page {
    pub fn read(path: PathBuf, text: &str, target: impl Fn(&Path) -> Target) -> Result<Self> {
        let (title, body) = (String::new(), String::new());
        let (headings, references, pages, files) = Default::default();
        let mut page = Self { path, title, headings, references, body, pages, files };
        let events: Vec<Event<'_>> = Parser::new_ext(text, Options::ENABLE_TABLES).collect();
        let events = page.rewrite(events, &target)?;
        html::push_html(&mut page.body, events.into_iter());
        if page.title.is_empty() {
            bail!("{}: the page has no title", page.path.display());
        }
        Ok(page)
    }

    fn rewrite<'a>(&mut self, events: Vec<Event<'a>>, target: &impl Fn(&Path) -> Target) -> Result<Vec<Event<'a>>> {
        let mut taken: BTreeMap<String, usize> = BTreeMap::new();
        let mut links = Vec::new();
        let mut found = Vec::new();
        for at in 0..events.len() {
            match &events[at] {
                Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                    let text = plain(&events[at + 1..]);
                    let id = unique(anchor(&text), &mut taken);
                    let (classes, attrs) = (classes.clone(), attrs.clone());
                    let tag = Tag::Heading { level: *level, id: Some(id.clone().into()), classes, attrs };
                    found.push(Event::Start(tag));
                    if self.title.is_empty() {
                        self.title = text;
                    } else {
                        self.headings.push(Heading { level: *level as u8, id, text });
                    }
                }
                Event::End(TagEnd::Heading(level)) => {
                    if let Some(heading) = self.headings.last() {
                        let anchor =
                            format!(" <a class=\"anchor\" href=\"#{}\" aria-label=\"Link here\">#</a>", heading.id);
                        found.push(Event::InlineHtml(anchor.into()));
                    }
                    found.push(Event::End(TagEnd::Heading(*level)));
                }
                Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                    let dest = self.lead(dest_url, target)?;
                    let (link_type, title, id) = (*link_type, title.clone(), id.clone());
                    links.push(dest.is_some());
                    found.push(match dest {
                        Some(dest) => Event::Start(Tag::Link { link_type, dest_url: dest.into(), title, id }),
                        None => Event::InlineHtml("<span class=\"folder\">".into()),
                    });
                }
                Event::End(TagEnd::Link) => found.push(match links.pop() {
                    Some(false) => Event::InlineHtml("</span>".into()),
                    _ => Event::End(TagEnd::Link),
                }),
                Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                    let dest: CowStr<'_> = self.lead(dest_url, target)?.unwrap_or_default().into();
                    let (link_type, title, id) = (*link_type, title.clone(), id.clone());
                    found.push(Event::Start(Tag::Image { link_type, dest_url: dest, title, id }));
                }
                Event::Start(Tag::Table(_)) => {
                    found.push(Event::Html("<div class=\"table\">\n".into()));
                    found.push(events[at].clone());
                }
                Event::End(TagEnd::Table) => {
                    found.push(events[at].clone());
                    found.push(Event::Html("</div>\n".into()));
                }
                Event::Html(text) => found.push(Event::Html(self.markup(text, target)?.into())),
                Event::InlineHtml(text) => found.push(Event::InlineHtml(self.markup(text, target)?.into())),
                event => found.push(event.clone()),
            }
        }
        Ok(found)
    }

    /// Returns the address of a link's target in the site; `None` for a folder.
    fn lead(&mut self, dest: &str, target: &impl Fn(&Path) -> Target) -> Result<Option<String>> {
        if dest.contains("://") || dest.starts_with("mailto:") || dest.starts_with('#') {
            return Ok(Some(dest.to_owned()));
        }
        let (file, heading) = dest.split_once('#').map_or((dest, None), |(file, heading)| (file, Some(heading)));
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let Some(path) = resolve(&folder.join(file)) else { bail!("{}: `{dest}` leaves", self.path.display()) };
        match target(&path) {
            Target::Page => {
                self.pages.insert(path.clone());
                let heading = self.headings.last().map(|heading| heading.text.clone()).unwrap_or_default();
                self.references.push(Reference { heading, page: path.clone() });
            }
            Target::File => {
                self.files.insert(path.clone());
            }
            Target::Folder => return Ok(None),
            Target::Absent => bail!("{}: `{dest}` leads nowhere", self.path.display()),
        }
        let link = relative(&address(&self.path), &address(&path));
        Ok(Some(heading.map_or(link.clone(), |heading| format!("{link}#{heading}"))))
    }

    /// Returns HTML of a page with its pictures in the site; a comment about a block's needs becomes a note.
    fn markup(&mut self, text: &str, target: &impl Fn(&Path) -> Target) -> Result<String> {
        if let Some(comment) = text.trim().strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->")) {
            let need = comment.trim().strip_prefix("needs: ");
            return Ok(need.map_or(String::new(), |need| format!("<p class=\"need\">Needs {}.</p>\n", said(need))));
        }
        let mut found = String::new();
        let mut rest = text;
        while let Some(at) = ["src=\"", "srcset=\""].iter().filter_map(|key| Some(rest.find(key)? + key.len())).min() {
            let Some(len) = rest[at..].find('"') else { break };
            let lead = self.lead(&rest[at..at + len], target)?.unwrap_or_default();
            found += &rest[..at];
            found += &lead;
            rest = &rest[at + len..];
        }
        Ok(found + rest)
    }
}

/// Returns what a block needs, as a reader is told.
fn said(need: &str) -> &str {
    match need {
        "gpu" => "an NVIDIA GPU",
        "docker" => "Docker",
        "peers" => "other Python packages, or some minutes",
        "model" => "a published model",
        "clone" => "a clone and a Rust toolchain",
        need => need,
    }
}

/// Returns the words of the heading that begins here.
fn plain(events: &[Event<'_>]) -> String {
    let inside = events.iter().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    inside
        .filter_map(|event| match event {
            Event::Text(text) | Event::Code(text) => Some(&**text),
            _ => None,
        })
        .collect()
}

/// Returns the anchor, with a number where a heading before it has the same.
fn unique(anchor: String, taken: &mut BTreeMap<String, usize>) -> String {
    let n = taken.entry(anchor.clone()).or_default();
    *n += 1;
    if *n == 1 { anchor } else { format!("{anchor}-{}", *n - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Result<Page> {
        Page::read("docs/guide/a.md".into(), text, |path| match path.to_str().unwrap() {
            "docs/b.md" | "docs/guide/c.md" => Target::Page,
            "docs/d.png" | "e/f.yaml" => Target::File,
            "e" => Target::Folder,
            _ => Target::Absent,
        })
    }

    #[test]
    fn headings_have_the_anchors_of_the_repository() {
        let page = page("# The *title*\n\n## Run `it`, now\n\n## Again\n\n### Again\n").unwrap();
        assert_eq!(page.title, "The title");
        let found: Vec<_> = page.headings.iter().map(|heading| (heading.level, &*heading.id, &*heading.text)).collect();
        assert_eq!(found, [(2, "run-it-now", "Run it, now"), (2, "again", "Again"), (3, "again-1", "Again")]);
        assert!(
            page.body.contains("<h2 id=\"run-it-now\">Run <code>it</code>, now <a class=\"anchor\""),
            "{}",
            page.body
        );
    }

    #[test]
    fn links_lead_into_the_site() {
        let text = "# A\n\n## B\n\n[b](../b.md#x) [c](c.md) [f](../../e/f.yaml) [e](../../e) [w](https://w) [h](#b)\n";
        let page = page(text).unwrap();
        for link in ["reference/b.html#x", "c.html", "files/e/f.yaml", "https://w", "#b"] {
            assert!(page.body.contains(&format!("href=\"{link}\"")), "{link}: {}", page.body);
        }
        assert!(page.body.contains("<span class=\"folder\">e</span>"), "{}", page.body);
        let reference = |path: &str| Reference { heading: "B".into(), page: path.into() };
        assert_eq!(page.references, [reference("docs/b.md"), reference("docs/guide/c.md")]);
        assert_eq!(page.files, BTreeSet::from(["e/f.yaml".into()]));
    }

    #[test]
    fn pictures_are_copied_and_needs_are_said() {
        let page = page("# A\n\n<img alt=\"d\" src=\"../d.png\">\n\n<!-- needs: gpu -->\n```sh\nls\n```\n").unwrap();
        assert!(page.body.contains("src=\"files/docs/d.png\""), "{}", page.body);
        assert!(page.body.contains("<p class=\"need\">Needs an NVIDIA GPU.</p>\n<pre>"), "{}", page.body);
        assert_eq!(page.files, BTreeSet::from(["docs/d.png".into()]));
    }

    #[test]
    fn a_broken_link_and_a_page_without_a_title_are_refused() {
        let refusal = |text: &str| page(text).err().unwrap().to_string();
        assert_eq!(refusal("# A\n\n[g](g.md)\n"), "docs/guide/a.md: `g.md` leads nowhere");
        assert_eq!(refusal("# A\n\n[g](../../../g.md)\n"), "docs/guide/a.md: `../../../g.md` leaves");
        assert_eq!(refusal("text\n"), "docs/guide/a.md: the page has no title");
    }
}
