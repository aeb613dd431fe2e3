//! Stand-ins with random weights for the published models that pages name, and for the programs that readers have.

use super::Page;
use super::block;
use crate::process::run;
use crate::tree;
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A language model and its codec, under the names that pages give them.
const FOLDERS: [&str; 2] = ["orpheus", "snac_24khz"];
const PROGRAMS: &str = "bin";
const SCRIPT: &str = include_str!("model.py");

/// The folder of the stand-ins.
pub struct StandIns(PathBuf);

impl StandIns {
    /// Makes them in `folder` with `python`.
    pub fn write(mut python: Command, folder: PathBuf) -> Result<Self> {
        tree::renew(&folder)?;
        let script = folder.join("model.py");
        fs::write(&script, SCRIPT).with_context(|| tree::shown(&script))?;
        run(python.arg(&script).arg(tree::root()).arg(&folder))?;
        Ok(Self(folder))
    }

    /// Puts the models into the folder of a page whose blocks need them.
    pub fn link(&self, page: &Page, folder: &Path) -> Result<()> {
        if page.blocks.iter().any(|block| block.need == Some(block::MODEL)) {
            for name in FOLDERS {
                symlink(self.0.join(name), folder.join(name)).context(name)?;
            }
        }
        Ok(())
    }

    /// Returns the folder of the programs.
    pub fn programs(&self) -> PathBuf {
        self.0.join(PROGRAMS)
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::blocks;
    use super::*;

    #[test]
    fn pages_that_need_a_model_get_a_link_to_each() {
        let folder = tree::target().join("check/guide-model-test");
        let stand_ins = StandIns(folder.join("made"));
        let linked = |need: &str, to: &str| {
            let text = format!("<!-- needs: {need} -->\n```sh\nls\n```\n");
            let page = Page { path: "a.md".into(), blocks: blocks(&text).unwrap(), text };
            let to = folder.join(to);
            tree::renew(&to).unwrap();
            stand_ins.link(&page, &to).unwrap();
            fs::read_dir(&to).unwrap().count()
        };
        assert_eq!((linked("model", "a"), linked("gpu", "b")), (FOLDERS.len(), 0));
        assert_eq!(fs::read_link(folder.join("a/orpheus")).unwrap(), folder.join("made/orpheus"));
        tree::remove(&folder).unwrap();
    }

    #[test]
    fn the_script_makes_what_is_linked() {
        let is_made = |name: &&str| SCRIPT.contains(&format!("folder / \"{name}\""));
        assert!(FOLDERS.iter().chain([&PROGRAMS]).all(is_made));
    }
}
