//! A page as one shell script, and its run.

use super::Page;
use super::block::{Block, Language};
use super::model::StandIns;
use crate::tree;
use anyhow::{Context, Result, bail};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

/// What a clone has that the commands of the guide name.
const LINKED: [&str; 6] = ["bench", "crates", "deploy", "docs", "golden", "training"];
/// Seconds after which a page hangs; all of them take a small part of it, but for the benches among the peers.
const LIMIT: &str = "1500";
/// The port of `melisma serve`, which may be in use here.
const PORT: &str = "127.0.0.1:8431";
const END: &str = "END_OF_THE_BLOCK";
/// Lines of its output that a failure shows.
const SHOWN: usize = 40;

/// The programs under their names in the guide.
pub struct Setup {
    pub program: PathBuf,
    pub python: PathBuf,
    /// The folder with the Python package.
    pub package: PathBuf,
    /// Needs that this machine meets.
    pub met: Vec<&'static str>,
    /// What takes the place of published models, where that need is met.
    pub stand_ins: Option<StandIns>,
}

impl Setup {
    /// Runs the blocks of a page in `folder`, which is new.
    pub fn run(&self, page: &Page, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| tree::shown(folder))?;
        for name in LINKED {
            std::os::unix::fs::symlink(tree::root().join(name), folder.join(name)).context(name)?;
        }
        if let Some(stand_ins) = &self.stand_ins {
            stand_ins.link(page, folder)?;
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let text = script(page, &self.met).replace(PORT, &format!("127.0.0.1:{port}"));
        let (file, log) = (folder.join(".script"), folder.join(".log"));
        fs::write(&file, text).with_context(|| tree::shown(&file))?;
        let output = fs::File::create(&log).with_context(|| tree::shown(&log))?;
        let mut command = Command::new("timeout");
        command.args(["--kill-after", "10", LIMIT, "bash"]).arg(&file).current_dir(folder);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        self.set(&mut command, folder)?;
        let status = command.env("MELISMA_PORT", port.to_string()).status().context("cannot start `timeout`")?;
        if !status.success() {
            let log = fs::read_to_string(&log).with_context(|| tree::shown(&log))?;
            let block = log.lines().rev().find_map(|line| line.strip_prefix("== ")).unwrap_or(&page.path);
            let lines: Vec<&str> = log.lines().collect();
            println!("{}", lines[lines.len().saturating_sub(SHOWN)..].join("\n"));
            bail!("{block}: ended with {status}");
        }
        Ok(())
    }

    /// Sets the environment: the programs, the CPU, few places of a server, and no settings of this user.
    pub fn set(&self, command: &mut Command, home: &Path) -> Result<()> {
        for (name, _) in env::vars_os() {
            if ["MELISMA_", "XDG_", "PYTHON"].iter().any(|own| name.to_string_lossy().starts_with(own)) {
                command.env_remove(name);
            }
        }
        let folders = [&self.program, &self.python].map(|file| file.parent().unwrap_or(Path::new("")).to_path_buf());
        let folders = self.stand_ins.iter().map(StandIns::programs).chain(folders);
        let path = env::var_os("PATH").unwrap_or_default();
        command.env("PATH", env::join_paths(folders.chain(env::split_paths(&path)))?);
        command.env("PYTHONPATH", &self.package).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("HOME", home).env("MELISMA_DEVICE", "cpu").env("MELISMA_SERVE_STREAMS", "2");
        Ok(())
    }
}

/// Returns a page's blocks as a script. Those whose need is not `met` are parsed.
fn script(page: &Page, met: &[&str]) -> String {
    let mut text = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n".to_owned();
    for block in page.blocks.iter().filter(|block| block.is_run()) {
        text += &format!("echo '== {}:{}'\n{}", page.path, block.line, part(block, met));
    }
    text
}

fn part(block: &Block, met: &[&str]) -> String {
    let given = |program: &str| format!("{program} <<'{END}'\n{}{END}\n", block.text);
    match (block.language, block.need.filter(|need| !met.contains(need))) {
        (Language::Shell, None) => block.text.clone(),
        (Language::Shell, Some(_)) => given("bash -n"),
        (_, None) => given("python3 -"),
        (_, Some(_)) => given("python3 -c 'import ast, sys; ast.parse(sys.stdin.read())'"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::blocks;
    use super::*;

    #[test]
    fn blocks_run_in_order_and_those_with_a_need_are_parsed() {
        let text = "```sh\nls\n```\n<!-- needs: gpu -->\n```sh\nrm -r a\n```\n```text\n-\n```\n```python\na = 1\n```\n";
        let page = Page { path: "a.md".into(), text: text.into(), blocks: blocks(text).unwrap() };
        let lines_of = |met| script(&page, met);
        let script = lines_of(&[]);
        let lines: Vec<&str> = script.lines().skip(2).collect();
        let expected = ["echo '== a.md:1'", "ls", "echo '== a.md:5'", "bash -n <<'END_OF_THE_BLOCK'", "rm -r a", END];
        assert_eq!(lines[..6], expected);
        assert_eq!(lines[6..], ["echo '== a.md:11'", "python3 - <<'END_OF_THE_BLOCK'", "a = 1", END]);
        assert!(lines_of(&["gpu"]).contains("echo '== a.md:5'\nrm -r a\n"));
    }

    #[test]
    fn a_block_that_fails_is_named() {
        let [program, python, package] = ["a/melisma", "b/python", "c"].map(PathBuf::from);
        let setup = Setup { program, python, package, met: Vec::new(), stand_ins: None };
        let folder = tree::target().join("check/guide-test");
        let page = |text: &str| Page { path: "a.md".into(), text: text.into(), blocks: blocks(text).unwrap() };
        tree::remove(&folder).unwrap();
        setup
            .run(&page("```sh\ntest -d golden && test \"$MELISMA_DEVICE\" = cpu\nsleep 99 &\n```\n"), &folder)
            .unwrap();
        tree::remove(&folder).unwrap();
        let error = setup.run(&page("```sh\ntrue\n```\n\n```sh\nfalse | cat\ntrue\n```\n"), &folder).unwrap_err();
        assert!(format!("{error:#}").starts_with("a.md:5: ended with"), "{error:#}");
        tree::remove(&folder).unwrap();
    }
}
