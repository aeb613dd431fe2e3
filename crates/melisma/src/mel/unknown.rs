//! Refusals of names that do not exist.

use crate::config::nearest;
use crate::{Error, Remedy};

/// Returns the refusal of `name`, which is not one of the `names` of presets or keys (`what`).
pub(super) fn unknown(what: &str, name: &str, names: &[&str]) -> Error {
    let hint = match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the {what}s are {}", names.join(", ")),
    };
    Error::invalid(format!("unknown {what} `{name}`")).with_hint(hint).or_hint(Remedy::ExplainMel)
}
