//! Precision as an explicit value: audible data stays in FP32 unless the user asks otherwise, and
//! nothing is lowered implicitly.

use crate::text::word::words;

/// A number format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// IEEE 754 binary32.
    Fp32,
    /// IEEE 754 binary16.
    Fp16,
    /// The upper half of binary32.
    Bf16,
    /// Eight-bit integers with calibrated scales.
    Int8,
}

/// The user's setting of `precision`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Request {
    /// Nothing is lowered.
    Fp32,
    /// Values are stored in FP16; sums stay in FP32.
    Fp16,
    /// Values are stored in BF16; sums stay in FP32.
    Bf16,
    /// Engines may lower weights to INT8 if that is faster and within the tolerance; audible data
    /// stays in FP32.
    Int8,
    /// Engines may lower precision if that is faster and within the tolerance; audible data stays
    /// in FP32.
    Auto,
}

/// How one kind of tensor is stored and computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Rule {
    /// The format in memory and files.
    pub storage: Format,
    /// The format in which products are summed.
    pub compute: Format,
}

/// How far an engine may lower precision, always within the user's tolerance and only if it is
/// faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lowering {
    /// Not at all.
    Never,
    /// To this format.
    To(Format),
    /// To whichever is fastest.
    Auto,
}

/// The precision policy: one rule per kind of tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Precision {
    /// Synthesis, codec and all other audible data.
    pub audible: Rule,
    /// Mel spectrograms: FP32 arithmetic, FP16 in files.
    pub mel: Rule,
    /// Models run by an engine.
    pub engine: Lowering,
    /// Whether f32 products on tensor cores may round their inputs to TF32.
    pub tf32: bool,
}

impl Precision {
    /// Returns the policy for the user's request; `engine` replaces its lowering unless it is
    /// `Never`.
    pub fn new(request: Request, engine: Lowering) -> Self {
        let (storage, asked) = match request {
            Request::Fp32 => (Format::Fp32, Lowering::Never),
            Request::Fp16 => (Format::Fp16, Lowering::To(Format::Fp16)),
            Request::Bf16 => (Format::Bf16, Lowering::To(Format::Bf16)),
            Request::Int8 => (Format::Fp32, Lowering::To(Format::Int8)),
            Request::Auto => (Format::Fp32, Lowering::Auto),
        };
        Self {
            audible: Rule { storage, compute: Format::Fp32 },
            mel: Rule { storage: Format::Fp16, compute: Format::Fp32 },
            engine: if engine == Lowering::Never { asked } else { engine },
            tf32: false,
        }
    }
}

impl Default for Precision {
    fn default() -> Self {
        Self::new(Request::Fp32, Lowering::Never)
    }
}

words!(Format, "number format", { Fp32 => "fp32", Fp16 => "fp16", Bf16 => "bf16", Int8 => "int8" });
words!(Request, "precision", { Fp32 => "fp32", Fp16 => "fp16", Bf16 => "bf16", Int8 => "int8", Auto => "auto" });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lowered_without_being_asked_for() {
        let policy = Precision::default();
        assert_eq!(policy.audible, Rule { storage: Format::Fp32, compute: Format::Fp32 });
        assert_eq!(policy.mel, Rule { storage: Format::Fp16, compute: Format::Fp32 });
        assert_eq!(policy.engine, Lowering::Never);
        assert!(!policy.tf32);
    }

    #[test]
    fn a_request_lowers_storage_but_not_sums() {
        let policy = Precision::new(Request::Bf16, Lowering::Never);
        assert_eq!(policy.audible, Rule { storage: Format::Bf16, compute: Format::Fp32 });
        assert_eq!(policy.engine, Lowering::To(Format::Bf16));
        let auto = Precision::new(Request::Auto, Lowering::Never);
        assert_eq!((auto.audible.storage, auto.engine), (Format::Fp32, Lowering::Auto));
        let int8 = Precision::new(Request::Int8, Lowering::Never);
        assert_eq!((int8.audible.storage, int8.engine), (Format::Fp32, Lowering::To(Format::Int8)));
        let mixed = Precision::new(Request::Fp16, Lowering::To(Format::Int8));
        assert_eq!(mixed.engine, Lowering::To(Format::Int8));
    }
}
