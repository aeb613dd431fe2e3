//! Parses `melisma.yaml`: untrusted text to keys, raw values and lines. This module does not know
//! the meaning of keys.

use std::fmt;
use std::io::Read;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{MergeKeyPolicy, Spanned};

use super::Raw;
use crate::{Error, Result};

const MAX_BYTES: u64 = 1 << 20;

/// One key of a file; keys of a section are written `section.key`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    pub key: String,
    pub raw: Raw,
    pub line: u64,
}

pub(super) fn read(path: &Path) -> Result<Vec<Line>> {
    let place = path.display();
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| Error::io(&place, error))?;
    file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(|error| Error::io(&place, error))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(Error::invalid(format!("{place}: a configuration file has at most {MAX_BYTES} bytes")));
    }
    let text = String::from_utf8(text).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        Error::corrupt(format!("{place}:{line}: this is not UTF-8 text"))
            .with_hint("a configuration file is YAML text with lines such as `threads: 4`")
    })?;
    parse(&text).map_err(|(line, error)| error.at(format!("{place}:{line}")))
}

/// Parses the text; errors come with their line.
fn parse(text: &str) -> std::result::Result<Vec<Line>, (u64, Error)> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 16,
            max_nodes: 10_000,
            max_events: 40_000,
            max_documents: 1,
            max_anchors: 100,
            max_aliases: 100,
        },
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    };
    let root: Spanned<Node> = serde_saphyr::from_str_with_options(text, options).map_err(not_yaml)?;
    let mut lines = Vec::new();
    match root.value {
        Node::Map(entries) => flatten("", entries, &mut lines),
        Node::Leaf(Raw::Other("nothing")) => {}
        Node::Leaf(_) => {
            let error = Error::invalid("this is not YAML with keys").with_hint("write lines such as `threads: 4`");
            return Err((root.referenced.line().max(1), error));
        }
    }
    Ok(lines)
}

fn not_yaml(error: serde_saphyr::Error) -> (u64, Error) {
    let line = error.location().map_or(1, |location| location.line().max(1));
    if let serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } = error.without_snippet() {
        return (line, Error::invalid(format!("the key `{key}` is written twice")).with_hint("keep one of them"));
    }
    let message = error.without_snippet().to_string();
    let first = message.lines().next().unwrap_or("unreadable");
    let message = first.split_once(" at line ").map_or(first, |(message, _)| message);
    let error = Error::corrupt(format!("this is not YAML: {message}"))
        .with_hint("a configuration file has lines such as `threads: 4`");
    (line, error)
}

fn flatten(section: &str, entries: Vec<(Spanned<String>, Node)>, lines: &mut Vec<Line>) {
    for (key, node) in entries {
        let line = key.referenced.line();
        let key = format!("{section}{}", key.value);
        match node {
            // Sections have one level; a deeper map is a value of the wrong type.
            Node::Map(entries) if section.is_empty() => {
                if entries.is_empty() {
                    lines.push(Line { key, raw: Raw::Other("an empty section"), line });
                } else {
                    flatten(&format!("{key}."), entries, lines);
                }
            }
            Node::Map(_) => lines.push(Line { key, raw: Raw::Other("a section"), line }),
            Node::Leaf(raw) => lines.push(Line { key, raw, line }),
        }
    }
}

enum Node {
    Leaf(Raw),
    Map(Vec<(Spanned<String>, Self)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> std::result::Result<Node, E> {
        Ok(Node::Leaf(Raw::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> std::result::Result<Node, E> {
        Ok(Node::Leaf(Raw::Integer(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> std::result::Result<Node, E> {
        Ok(Node::Leaf(Raw::Integer(value.into())))
    }

    fn visit_i128<E>(self, value: i128) -> std::result::Result<Node, E> {
        Ok(Node::Leaf(Raw::Integer(value)))
    }

    fn visit_u128<E>(self, value: u128) -> std::result::Result<Node, E> {
        Ok(Node::Leaf(i128::try_from(value).map_or(Raw::Other("a number too large"), Raw::Integer)))
    }

    fn visit_f64<E>(self, value: f64) -> std::result::Result<Node, E> {
        Ok(Node::Leaf(Raw::Number(value)))
    }

    fn visit_str<E>(self, value: &str) -> std::result::Result<Node, E> {
        Ok(Node::Leaf(Raw::Text(value.to_owned())))
    }

    fn visit_unit<E>(self) -> std::result::Result<Node, E> {
        Ok(Node::Leaf(Raw::Other("nothing")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(match item {
                Node::Leaf(raw) => raw,
                Node::Map(_) => Raw::Other("a section"),
            });
        }
        Ok(Node::Leaf(Raw::List(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Map(entries))
    }
}
