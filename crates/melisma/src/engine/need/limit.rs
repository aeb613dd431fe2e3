//! Whether and how a run fits into its memory limits.

use super::{Hidden, Need, facts};
use crate::config::{Chunking, Config, Policy};
use crate::engine::EngineName;
use crate::engine::chunked::Reach;
use crate::engine::ours::chain;
use crate::format::Value;
use crate::onnx::Model;
use crate::runtime::memory;
use crate::text::size;
use crate::{Error, ErrorKind, Remedy, Result};

/// Pieces of the long axis are at least this long, because their edges are computed twice.
const SHORTEST_PIECE: u64 = 64;

/// The memory that a run may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The user's limit.
    pub limit_bytes: Option<u64>,
    /// The machine's free memory.
    pub free_bytes: Option<u64>,
    /// Whether a long signal may be computed in pieces.
    pub chunking: Chunking,
}

/// How to execute a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// It fits.
    Whole,
    /// It fits if weights are stored only once.
    Lean,
    /// It fits if this many elements of the long axis are computed at once.
    Pieces(usize),
    /// Its memory is unknown in advance: it needs a process with a hard limit.
    Apart(Vec<Hidden>),
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self { limit_bytes: None, free_bytes: None, chunking: Chunking::Auto };

    /// Returns the limits from `config` on a machine with `free_bytes` left.
    pub fn of(config: &Config, free_bytes: Option<u64>) -> Self {
        Self { limit_bytes: config.memory_limit.value.bytes(), free_bytes, chunking: Policy::new(config).chunking }
    }

    /// Returns the maximum memory of a process.
    pub fn most_bytes(&self) -> Option<u64> {
        [self.limit_bytes, self.free_bytes].into_iter().flatten().min()
    }

    /// Returns how the embedded engine can run `model` with these inputs.
    ///
    /// # Errors
    /// `Memory` if it does not fit. The message names the node that needs the most, the hint the
    /// lowest limit that works.
    pub fn admit(&self, model: &Model, inputs: &[Value]) -> Result<Admission> {
        let whole = facts(model, inputs)?;
        let need = Need::with(model, &whole);
        if self.fits(&need) {
            return Ok(match need.hidden.is_empty() {
                true => Admission::Whole,
                false => Admission::Apart(need.hidden),
            });
        }
        let lean = Need { model_bytes: need.model_bytes - need.spare_bytes, ..need.clone() };
        if self.fits(&lean) && need.hidden.is_empty() {
            return Ok(Admission::Lean);
        }
        let mut least = lean.bytes();
        if self.chunking != Chunking::Off
            && need.hidden.is_empty()
            && let Ok(reach) = Reach::of(model)
            && let [(_, fact)] = whole.as_slice()
            && let &[_, _, len] = fact.shape.as_slice()
        {
            let mut piece = len.div_ceil(2);
            while piece >= SHORTEST_PIECE
                && let Some(part) = Need::piece(model, &whole, (reach, piece), need.output_bytes)
            {
                let part = Need { model_bytes: lean.model_bytes, ..part };
                if self.fits(&part) {
                    return Ok(Admission::Pieces(usize::try_from(piece).unwrap_or(usize::MAX)));
                }
                least = least.min(part.bytes());
                piece /= 2;
            }
        }
        Err(self.refusal(&lean, least))
    }

    /// Rejects a model with an intermediate value that is larger than the memory, unless an engine
    /// works on parts of it.
    ///
    /// # Errors
    /// `Memory`, like [`Limits::admit`].
    pub fn refuse_hopeless(&self, model: &Model, inputs: &[Value]) -> Result<()> {
        let need = Need::of(model, inputs)?;
        let largest = need.largest.as_ref().map_or(0, |largest| largest.bytes);
        let is_hopeless = self.most_bytes().is_some_and(|most| largest > most);
        if is_hopeless && Reach::of(model).is_err() && !chain::takes(model) {
            return Err(self.refusal(&need, need.bytes()));
        }
        Ok(())
    }

    /// Rejects a run of `engine`, which is not the embedded one, that needs more than the limit or that is hopeless.
    ///
    /// # Errors
    /// `Memory`, like [`Limits::admit`].
    pub fn admit_in(&self, engine: EngineName, model: &Model, inputs: &[Value]) -> Result<Vec<Hidden>> {
        let need = Need::of(model, inputs)?.in_engine(engine, model);
        let limit = Self { free_bytes: None, ..*self };
        if !limit.fits(&need) {
            return Err(limit.refusal(&need, need.bytes()));
        }
        self.refuse_hopeless(model, inputs)?;
        Ok(need.hidden)
    }

    fn fits(&self, need: &Need) -> bool {
        self.limit_bytes.is_none_or(|limit| need.bytes() <= limit)
            && self.free_bytes.is_none_or(|free| need.run_bytes <= free)
    }

    fn refusal(&self, need: &Need, least: u64) -> Error {
        let is_user = self.limit_bytes.is_some_and(|limit| need.bytes() > limit);
        match self.limit_bytes.filter(|_| is_user) {
            Some(limit) => {
                let raise = Remedy::RaiseMemoryLimit { least: least.checked_next_multiple_of(1 << 20) };
                memory::too_small(need.run_described(), need.bytes(), limit)
                    .with_hint(raise)
                    .or_hint("use smaller inputs")
            }
            None => {
                let free = size::show(self.free_bytes.unwrap_or(0));
                let error = Error::new(ErrorKind::Memory, format!("{}; {free} of memory is free", need.describe()));
                error.with_hint("use smaller inputs, or a machine with more memory")
            }
        }
    }
}
