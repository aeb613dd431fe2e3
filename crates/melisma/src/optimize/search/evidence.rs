//! What a search measured with, and what its figures are worth.

use serde::{Deserialize, Serialize};

use super::measure::floats;
use crate::Result;
use crate::format::Value;

/// Where the values of an input come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Source {
    /// From the user.
    Given,
    /// From a seed.
    Generated,
}

/// How the values of an input were made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InputValues {
    /// The input's name.
    pub name: String,
    /// Where they come from.
    pub source: Source,
    /// How they were made, in words.
    pub description: String,
}

/// What the results of a search rest on, from the weakest. A run prefers the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Evidence {
    /// Generated inputs whose outputs are the same everywhere: an engine that computes nothing would
    /// pass.
    Degenerate,
    /// Generated inputs.
    Generated,
    /// Arrays of the user, for every input.
    Given,
}

impl InputValues {
    pub(super) fn new(name: &str, source: Source, description: String) -> Self {
        Self { name: name.to_owned(), source, description }
    }
}

impl Evidence {
    /// Returns what the results rest on: inputs of these `origins`, and outputs whose fault `degenerate` describes.
    pub(super) fn of(origins: &[InputValues], degenerate: Option<&str>) -> Self {
        let is_given = origins.iter().all(|origin| origin.source == Source::Given);
        match (is_given, degenerate) {
            (true, _) => Self::Given,
            (false, None) => Self::Generated,
            (false, Some(_)) => Self::Degenerate,
        }
    }
}

/// Describes outputs that are the same everywhere, in all sets; `None` if one of them varies. A
/// single number that is the same in several sets counts too.
pub(super) fn degenerate(names: &[String], outputs: &[Vec<Value>]) -> Result<Option<String>> {
    let mut texts = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let mut values = Vec::new();
        for set in outputs {
            values.extend(set.get(index).map(floats).transpose()?.unwrap_or_default());
        }
        let Some((first, rest)) = values.split_first() else { continue };
        let is_same = |value: &f32| value == first || (value.is_nan() && first.is_nan());
        if rest.is_empty() || !rest.iter().all(is_same) {
            return Ok(None);
        }
        texts.push(format!("`{name}` is {first} everywhere"));
    }
    Ok((!texts.is_empty()).then(|| texts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs(sets: &[&[&[f32]]]) -> Option<String> {
        let value = |values: &&[f32]| Value::from_slice(values, &[values.len()]).unwrap();
        let sets: Vec<Vec<Value>> = sets.iter().map(|set| set.iter().map(value).collect()).collect();
        let names: Vec<String> = (0..sets[0].len()).map(|index| format!("y{index}")).collect();
        degenerate(&names, &sets).unwrap()
    }

    #[test]
    fn outputs_that_never_change_are_degenerate() {
        assert_eq!(outputs(&[&[&[0.0, 0.0]]]).unwrap(), "`y0` is 0 everywhere");
        assert_eq!(outputs(&[&[&[f32::NAN, f32::NAN]], &[&[f32::NAN; 2]]]).unwrap(), "`y0` is NaN everywhere");
        assert_eq!(outputs(&[&[&[2.5]], &[&[2.5]]]).unwrap(), "`y0` is 2.5 everywhere");
        assert_eq!(outputs(&[&[&[0.0; 3], &[1.0; 2]]]).unwrap(), "`y0` is 0 everywhere, `y1` is 1 everywhere");
    }

    #[test]
    fn one_output_that_varies_is_enough() {
        assert_eq!(outputs(&[&[&[0.0, 1.0]]]), None);
        assert_eq!(outputs(&[&[&[0.0; 3], &[1.0, 2.0]]]), None);
        assert_eq!(outputs(&[&[&[2.5]], &[&[2.6]]]), None, "another set");
        assert_eq!(outputs(&[&[&[2.5]]]), None, "a single number says nothing");
    }

    #[test]
    fn what_the_user_gives_is_the_strongest() {
        assert!(Evidence::Given > Evidence::Generated && Evidence::Generated > Evidence::Degenerate);
    }
}
