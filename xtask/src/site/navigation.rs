//! The list of all pages: that of the guide's first page, and the reference.

use super::page::Page;
use super::{GUIDE, HOME};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const REFERENCE: &str = "Reference";

#[derive(Debug)]
pub struct Group {
    pub name: String,
    /// Paths and titles.
    pub pages: Vec<(PathBuf, String)>,
}

pub struct Navigation {
    pub groups: Vec<Group>,
}

impl Navigation {
    /// Returns the pages below the headings of the guide's first page, then the other pages of `docs` by title.
    pub fn of(pages: &BTreeMap<PathBuf, Page>) -> Result<Self> {
        let home = pages.get(Path::new(HOME)).context(HOME)?;
        let of_guide = |path: &Path| path.parent() == Some(Path::new(GUIDE));
        let mut groups: Vec<Group> = Vec::new();
        for reference in home.references.iter().filter(|reference| of_guide(&reference.page)) {
            let page = pages.get(&reference.page).with_context(|| reference.page.display().to_string())?;
            let entry = (page.path.clone(), page.title.clone());
            match groups.last_mut() {
                Some(group) if group.name == reference.heading => group.pages.push(entry),
                _ => groups.push(Group { name: reference.heading.clone(), pages: vec![entry] }),
            }
        }
        let listed: BTreeSet<&PathBuf> = groups.iter().flat_map(|group| &group.pages).map(|(path, _)| path).collect();
        let own = pages.keys().filter(|path| of_guide(path) && *path != Path::new(HOME));
        if let Some(path) = own.into_iter().find(|path| !listed.contains(path)) {
            bail!("{HOME} does not lead to {}", path.display());
        }
        let others = pages.values().filter(|page| page.path.parent() == Some(Path::new("docs")));
        let mut others: Vec<_> = others.map(|page| (page.path.clone(), page.title.clone())).collect();
        others.sort_by_key(|(_, title)| title.to_lowercase());
        groups.push(Group { name: REFERENCE.into(), pages: others });
        Ok(Self { groups })
    }

    /// Returns the pages before and after this one in their group's order.
    pub fn neighbours(&self, path: &Path) -> [Option<&(PathBuf, String)>; 2] {
        let all: Vec<_> =
            self.groups.iter().filter(|group| group.name != REFERENCE).flat_map(|group| &group.pages).collect();
        match all.iter().position(|(page, _)| page == path) {
            Some(at) => [at.checked_sub(1).map(|at| all[at]), all.get(at + 1).copied()],
            None if path == Path::new(HOME) => [None, all.first().copied()],
            None => [None, None],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Target;
    use super::*;

    fn pages(texts: &[(&str, &str)]) -> BTreeMap<PathBuf, Page> {
        let read = |(path, text): &(&str, &str)| {
            (PathBuf::from(path), Page::read(path.into(), text, |_| Target::Page).unwrap())
        };
        texts.iter().map(read).collect()
    }

    #[test]
    fn pages_are_grouped_as_on_the_first_page() {
        let home = (HOME, "# Guide\n\n## Rooms\n\n[B](b.md) [R](../r.md)\n\n## Ways\n\n[A](a.md)\n");
        let all = [home, ("docs/guide/a.md", "# A\n"), ("docs/guide/b.md", "# B\n"), ("docs/r.md", "# R\n")];
        let navigation = Navigation::of(&pages(&all)).unwrap();
        let names: Vec<_> = navigation.groups.iter().map(|group| (&*group.name, &*group.pages[0].1)).collect();
        assert_eq!(names, [("Rooms", "B"), ("Ways", "A"), ("Reference", "R")]);
        let near = |path: &str| navigation.neighbours(Path::new(path)).map(|page| page.map(|(_, title)| title.clone()));
        assert_eq!(near("docs/guide/a.md"), [Some("B".into()), None]);
        assert_eq!(near(HOME), [None, Some("B".into())]);
        assert_eq!(near("docs/r.md"), [None, None]);
        let lonely = [home, ("docs/guide/a.md", "# A\n"), ("docs/guide/b.md", "# B\n"), ("docs/guide/c.md", "# C\n")];
        let refusal = Navigation::of(&pages(&lonely)).err().unwrap().to_string();
        assert_eq!(refusal, "docs/guide/README.md does not lead to docs/guide/c.md");
    }
}
