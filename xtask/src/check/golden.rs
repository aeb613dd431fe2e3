//! Checks golden files against their manifest.

use super::outcome::Outcome;
use crate::golden::{hash_all, read};
use anyhow::{Result, bail};

pub fn check() -> Result<Outcome> {
    let recorded = read()?;
    let present = hash_all()?;
    let mut wrong = Vec::new();
    for (path, hash) in &present {
        match recorded.get(path) {
            None => wrong.push(format!("golden/{path}: not in the manifest")),
            Some(expected) if expected != hash => wrong.push(format!("golden/{path}: its bytes have changed")),
            Some(_) => {}
        }
    }
    wrong.extend(
        recorded.keys().filter(|path| !present.contains_key(*path)).map(|path| format!("golden/{path}: missing")),
    );
    if !wrong.is_empty() {
        wrong.iter().for_each(|line| println!("{line}"));
        bail!(
            "{} golden files differ from the manifest; `cargo xtask golden` rewrites it when the change is intended",
            wrong.len()
        );
    }
    Ok(Outcome::Counted(format!("{} files", present.len())))
}
