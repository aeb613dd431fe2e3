//! The context of a container's image: programs that are built already, and a Dockerfile that copies them.

use super::target::Target;
use crate::tree;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

const SOURCE: &str = "deploy/Dockerfile";
const LICENCES: &str = "licences.txt";
const HEAD: &str = "\
# docker build -t melisma .
# docker run --rm --stop-timeout 120 -p 127.0.0.1:8431:8431 -e MELISMA_API_KEY=... melisma
# TARGETARCH, amd64 or arm64, is set by BuildKit.
ARG BASE=debian:bookworm-slim
";

/// Writes the context into `folder`, with the programs of `programs` and the text of `licences`.
pub fn write(folder: &Path, programs: &[(Target, PathBuf)], licences: &Path) -> Result<()> {
    for (target, program) in programs {
        let place = folder.join(target.debian());
        fs::create_dir_all(&place).with_context(|| tree::shown(&place))?;
        fs::copy(program, place.join("melisma")).with_context(|| tree::shown(program))?;
    }
    fs::copy(licences, folder.join(LICENCES)).with_context(|| tree::shown(licences))?;
    let source = fs::read_to_string(tree::root().join(SOURCE)).context(SOURCE)?;
    let file = folder.join("Dockerfile");
    fs::write(&file, dockerfile(&source).context(SOURCE)?).with_context(|| tree::shown(&file))
}

/// Returns the Dockerfile: the last stage of the one that compiles, with the program from the context.
fn dockerfile(source: &str) -> Result<String> {
    const START: &str = "FROM ${BASE}\n";
    const COMPILED: &str = "COPY --from=build /melisma /usr/local/bin/melisma\n";
    let copied = format!(
        "ARG TARGETARCH\nCOPY ${{TARGETARCH}}/melisma /usr/local/bin/melisma\n\
         COPY {LICENCES} /usr/share/doc/melisma/{LICENCES}\n"
    );
    let (_, stage) = source.split_once(START).context("it has no stage `FROM ${BASE}`")?;
    let (before, after) =
        stage.split_once(COMPILED).with_context(|| format!("it lacks the line `{}`", COMPILED.trim()))?;
    Ok(format!("{HEAD}{START}{before}{copied}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_is_that_of_the_build_without_its_compiler() {
        let source = fs::read_to_string(tree::root().join(SOURCE)).unwrap();
        let made = dockerfile(&source).unwrap();
        assert!(source.contains(HEAD.lines().last().unwrap()), "the base differs");
        for absent in ["AS build", "cargo", "build-essential", "--from="] {
            assert!(!made.contains(absent), "{absent} in {made}");
        }
        for line in [
            "COPY ${TARGETARCH}/melisma /usr/local/bin/melisma",
            "COPY licences.txt /usr/share/doc/melisma/licences.txt",
            "USER 10001:10001",
            "ENTRYPOINT [\"melisma\"]",
        ] {
            assert!(made.lines().any(|other| other == line), "{line} not in {made}");
        }
    }
}
