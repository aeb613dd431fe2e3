//! Instruction sets of the CPU. Holding an [`Isa`] proves that this machine has it.

use crate::{Error, Result};

/// The instruction sets that kernels are written for, in ascending order on each architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Portable code, compiled for the target's baseline.
    Scalar,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL on top of [`Level::Avx2`].
    Avx512,
    /// NEON, which every 64-bit Arm machine has.
    Neon,
}

impl Level {
    /// All levels, in ascending order on each architecture.
    pub const ALL: [Self; 4] = [Self::Scalar, Self::Avx2, Self::Avx512, Self::Neon];

    /// Returns the name that `MELISMA_ISA` takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Neon => "neon",
        }
    }
}

/// An instruction set that this machine supports, checked at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Isa(Level);

impl Isa {
    /// Portable code; every machine has it.
    pub const SCALAR: Self = Self(Level::Scalar);

    /// Returns the instruction set `level`, if this machine has it.
    pub fn new(level: Level) -> Option<Self> {
        let present = match level {
            Level::Scalar => true,
            Level::Avx2 => has_avx2(),
            Level::Avx512 => has_avx2() && has_avx512(),
            Level::Neon => cfg!(target_arch = "aarch64"),
        };
        present.then_some(Self(level))
    }

    /// Returns every instruction set of this machine, in ascending order.
    pub fn available() -> impl Iterator<Item = Self> {
        Level::ALL.into_iter().filter_map(Self::new)
    }

    /// Returns the widest instruction set of this machine.
    pub fn best() -> Self {
        Self::available().last().unwrap_or(Self::SCALAR)
    }

    /// Returns the instruction set named by `MELISMA_ISA`, else the best.
    ///
    /// # Errors
    /// An unknown name, or an instruction set that this machine lacks.
    pub fn from_env() -> Result<Self> {
        match std::env::var("MELISMA_ISA") {
            Err(_) => Ok(Self::best()),
            Ok(name) => Self::named(&name),
        }
    }

    fn named(name: &str) -> Result<Self> {
        let level = Level::ALL.into_iter().find(|level| level.name() == name).ok_or_else(|| {
            Error::invalid(format!("MELISMA_ISA: unknown instruction set `{name}`"))
                .with_hint("use scalar, avx2, avx512 or neon")
        })?;
        Self::new(level).ok_or_else(|| {
            Error::unsupported(format!("MELISMA_ISA: this CPU has no {name}"))
                .with_hint(format!("the best it has is {}", Self::best().level().name()))
        })
    }

    /// Returns the level of the instruction set.
    pub fn level(self) -> Level {
        self.0
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx2() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx512() -> bool {
    false
}

/// Compiles one loop for every instruction set: `dispatch!(isa, fn name(arguments) { body })` runs
/// `body` inlined into a function with the instruction set's features enabled. It defines nothing
/// outside. On 64-bit Arm every function has those of NEON.
macro_rules! dispatch {
    ($isa:expr, $body:ident($($argument:ident: $type:ty),* $(,)?)) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn avx2($($argument: $type),*) { $body($($argument),*) }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
        fn avx512($($argument: $type),*) { $body($($argument),*) }
        match $isa.level() {
            // SAFETY: an `Isa` exists only on machines that have its features.
            #[cfg(target_arch = "x86_64")]
            $crate::device::isa::Level::Avx2 => unsafe { avx2($($argument),*) },
            // SAFETY: an `Isa` exists only on machines that have its features.
            #[cfg(target_arch = "x86_64")]
            $crate::device::isa::Level::Avx512 => unsafe { avx512($($argument),*) },
            _ => $body($($argument),*),
        }
    }};
}
pub(crate) use dispatch;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        assert_eq!(Isa::named("scalar").unwrap(), Isa::SCALAR);
        let unknown = Isa::named("sse9").unwrap_err();
        assert!(unknown.hint().unwrap().contains("avx512"));
        assert!(Isa::available().any(|isa| isa == Isa::best()));
    }
}
