//! Finds the state dict in a checkpoint: the whole dictionary, or one that training scripts store
//! beside epochs and optimizers.

use super::{Machine, Tensor, Value};
use crate::{Error, Result};

/// Names that scripts use for a model's state dict, most common first.
const NAMES: [&str; 8] =
    ["state_dict", "model_state_dict", "model_state", "model", "module", "net", "weights", "params"];
/// The deepest nesting of dictionaries that is searched.
const MAX_DEPTH: usize = 4;

/// The state dict that was found.
#[derive(Debug)]
pub struct State<'a> {
    /// The named tensors, in the order of the state dict.
    pub tensors: Vec<(&'a str, Tensor<'a>)>,
    /// The names of the entries beside it.
    pub left_out: Vec<String>,
}

impl<'a> Machine<'a> {
    pub(super) fn state(&self, root: usize) -> Result<State<'a>> {
        let (mut dict, mut path, mut left_out) = (root, String::new(), Vec::new());
        for _ in 0..MAX_DEPTH {
            if self.dicts[dict].is_empty() || self.is_state(dict) {
                return Ok(State { tensors: self.tensors_of(dict), left_out });
            }
            let (name, inner) = self.nested(dict)?;
            let others = self.dicts[dict].iter().filter_map(|&(key, _)| match key {
                Value::Str(other) if other != name => Some(format!("{path}{other}")),
                _ => None,
            });
            left_out.extend(others);
            path = format!("{path}{name}.");
            dict = inner;
        }
        Err(Error::corrupt(format!("more than {MAX_DEPTH} dictionaries within each other")))
    }

    fn is_state(&self, dict: usize) -> bool {
        let entries = &self.dicts[dict];
        !entries.is_empty() && entries.iter().all(|entry| matches!(entry, (Value::Str(_), Value::Tensor(_))))
    }

    fn tensors_of(&self, dict: usize) -> Vec<(&'a str, Tensor<'a>)> {
        let tensor = |&(key, value): &(Value<'a>, Value<'a>)| match (key, value) {
            (Value::Str(name), Value::Tensor(tensor)) => Some((name, self.tensors[tensor].clone())),
            _ => None,
        };
        self.dicts[dict].iter().filter_map(tensor).collect()
    }

    /// Returns the dictionary within `dict` that is the state dict, or contains it.
    fn nested(&self, dict: usize) -> Result<(&'a str, usize)> {
        let nested: Vec<(&str, usize)> = self.dicts[dict]
            .iter()
            .filter_map(|entry| match *entry {
                (Value::Str(name), Value::Dict(inner)) => Some((name, inner)),
                _ => None,
            })
            .collect();
        let states: Vec<(&str, usize)> = nested.iter().copied().filter(|&(_, inner)| self.is_state(inner)).collect();
        let named = |among: &[(&'a str, usize)]| {
            NAMES.iter().find_map(|wanted| among.iter().copied().find(|(name, _)| name == wanted))
        };
        if let Some(found) = named(&states) {
            return Ok(found);
        }
        match states[..] {
            [only] => Ok(only),
            [] => named(&nested).ok_or_else(|| self.not_a_tensor(dict)),
            _ => {
                let names: Vec<&str> = states.iter().map(|(name, _)| *name).collect();
                Err(Error::unsupported(format!("the checkpoint has several state dicts: {}", names.join(", ")))
                    .with_hint("save the one to use as a file of its own"))
            }
        }
    }

    fn not_a_tensor(&self, dict: usize) -> Error {
        let odd = self.dicts[dict].iter().find_map(|entry| match *entry {
            (Value::Str(_), Value::Tensor(_)) => None,
            (Value::Str(name), _) => Some(Error::corrupt(format!("{name}: not a tensor"))),
            _ => Some(Error::corrupt("an entry whose key is not a string")),
        });
        odd.unwrap_or_else(|| Error::corrupt("not a dictionary of tensors"))
    }
}
