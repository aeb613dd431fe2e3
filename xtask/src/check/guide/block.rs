//! The code blocks of a page, and what they need.

use anyhow::{Context, Result, bail};

/// What a block may need that not every machine has: `<!-- needs: gpu -->` above it.
pub const NEEDS: [&str; 5] = [GPU, DOCKER, PEERS, MODEL, "clone"];
pub const GPU: &str = "gpu";
pub const DOCKER: &str = "docker";
/// Packages of Python that the checks install only where many tests run.
pub const PEERS: &str = "peers";
/// A published model.
pub const MODEL: &str = "model";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Shell,
    Python,
    /// Lines of a source that tests run.
    Rust,
    /// A drawing, or what a program prints.
    Text,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of its first fence, from 1.
    pub line: usize,
    pub language: Language,
    pub need: Option<&'static str>,
    pub text: String,
}

impl Block {
    /// Returns whether it is part of its page's script.
    pub fn is_run(&self) -> bool {
        matches!(self.language, Language::Shell | Language::Python)
    }
}

/// Returns the blocks of a page in order.
pub fn blocks(page: &str) -> Result<Vec<Block>> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    let mut need = None;
    for (number, line) in (1..).zip(page.lines()) {
        let at = || format!("line {number}");
        match &mut open {
            Some(block) if line == "```" => {
                if block.text.is_empty() {
                    bail!("line {}: the block is empty", block.line);
                }
                found.extend(open.take());
            }
            Some(block) => {
                block.text += line;
                block.text.push('\n');
            }
            None => match (line.strip_prefix("```"), line.trim()) {
                (Some(name), _) => {
                    let language = language(name).with_context(at)?;
                    open = Some(Block { line: number, language, need: need.take(), text: String::new() });
                }
                (None, text) if text.starts_with("```") => bail!("line {number}: a fence must not be indented"),
                (None, text) if text.starts_with("<!-- needs:") => need = Some(wanted(text).with_context(at)?),
                (None, text) if !text.is_empty() && need.is_some() => {
                    bail!("line {number}: `needs` belongs right above a block");
                }
                _ => {}
            },
        }
    }
    if let Some(block) = open {
        bail!("line {}: the block has no end", block.line);
    }
    if need.is_some() {
        bail!("the last `needs` has no block");
    }
    Ok(found)
}

fn language(name: &str) -> Result<Language> {
    Ok(match name {
        "sh" => Language::Shell,
        "python" => Language::Python,
        "rust" => Language::Rust,
        "text" => Language::Text,
        _ => bail!("a block of `{name}`, which nothing runs; sh, python, rust and text are known"),
    })
}

fn wanted(comment: &str) -> Result<&'static str> {
    let name = comment.strip_prefix("<!-- needs: ").and_then(|rest| rest.strip_suffix(" -->"));
    let known = name.and_then(|name| NEEDS.into_iter().find(|need| *need == name));
    known.with_context(|| format!("`{comment}` is not `<!-- needs: NAME -->` with one of {}", NEEDS.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(page: &str) -> String {
        format!("{:#}", blocks(page).unwrap_err())
    }

    #[test]
    fn blocks_have_their_line_language_and_need() {
        let page = "# A\n\n```sh\nls\ncd b\n```\n<!-- needs: gpu -->\n\n```python\na\n```\n\n```text\n-->\n```\n";
        let block = |line, language, need, text: &str| Block { line, language, need, text: text.to_owned() };
        assert_eq!(
            blocks(page).unwrap(),
            [
                block(3, Language::Shell, None, "ls\ncd b\n"),
                block(9, Language::Python, Some("gpu"), "a\n"),
                block(13, Language::Text, None, "-->\n"),
            ]
        );
    }

    #[test]
    fn what_nothing_would_run_is_refused() {
        assert!(refusal("```\nls\n```\n").starts_with("line 1: a block of ``"));
        assert!(refusal("```bash\nls\n```\n").contains("`bash`, which nothing runs"));
        assert!(refusal("1. a\n\n   ```sh\n").starts_with("line 3: a fence must not be indented"));
        assert!(refusal("```sh\nls\n").starts_with("line 1: the block has no end"));
        assert!(refusal("a\n```sh\n```\n").starts_with("line 2: the block is empty"));
    }

    #[test]
    fn a_need_is_known_and_above_its_block() {
        assert!(
            refusal("<!-- needs: moon -->\n```sh\nls\n```\n").contains("with one of gpu, docker, peers, model, clone")
        );
        assert!(refusal("<!-- needs: gpu -->\nHello.\n```sh\nls\n```\n").starts_with("line 2: `needs` belongs"));
        assert!(refusal("<!-- needs: gpu -->\n").starts_with("the last `needs`"));
    }
}
