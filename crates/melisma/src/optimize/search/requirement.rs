//! The requirements on an engine, for a search and for a run.

use super::Objective;
use super::candidate::{Wanted, engines};
use crate::config::{Config, DeviceRequest};
use crate::engine::{EngineName, onnxruntime};
use crate::{Error, Remedy, Result};

/// The requirements on an engine.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Requirements {
    /// How far precision may be lowered.
    pub precision: Wanted,
    /// The largest allowed error, relative to the largest value of an output.
    pub tolerance: f64,
    /// The named engine; `None` for the best.
    pub engine: Option<EngineName>,
    /// What the best engine is best at; `None` for what the profile prefers.
    pub objective: Option<Objective>,
}

/// The requirements as a front end receives them; missing ones come from the settings.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Requested<'a> {
    /// `fp32`, `fp16`, `int8` or `auto`.
    pub precision: Option<&'a str>,
    /// The largest allowed relative error.
    pub tolerance: Option<f64>,
    /// `auto` or an engine's name.
    pub engine: Option<&'a str>,
    /// `p50`, `p99`, `memory` or `first`.
    pub objective: Option<&'a str>,
}

impl<'a> Requested<'a> {
    setters! {
        /// Sets the precision: `fp32`, `fp16`, `int8` or `auto`.
        pub fn with_precision(precision: impl Into<Option<&'a str>>);
        /// Sets the largest allowed relative error.
        pub fn with_tolerance(tolerance: impl Into<Option<f64>>);
        /// Sets the engine: `auto` or its name.
        pub fn with_engine(engine: impl Into<Option<&'a str>>);
        /// Sets what the best engine is best at: `p50`, `p99`, `memory` or `first`.
        pub fn with_objective(objective: impl Into<Option<&'a str>>);
    }
}

impl Requirements {
    /// Returns the requested requirements, completed from `config`.
    ///
    /// # Errors
    /// An unknown precision, engine or objective, a negative tolerance, or a configured precision that no
    /// engine supports.
    pub fn new(config: &Config, asked: Requested<'_>) -> Result<Self> {
        let tolerance = asked.tolerance.unwrap_or(config.tolerance.value.value());
        if !(tolerance >= 0.0 && tolerance.is_finite()) {
            return Err(Error::invalid(format!("tolerance: {tolerance} is not 0 or more"))
                .with_hint("write a number of at least 0, e.g. 1e-3"));
        }
        let precision = match asked.precision {
            Some(text) => text.parse()?,
            None => Wanted::of(config)?,
        };
        let engine = asked.engine.filter(|name| *name != "auto").map(str::parse).transpose()?;
        let objective = asked.objective.map(str::parse).transpose()?;
        Ok(Self { precision, tolerance, engine, objective })
    }

    /// Rejects a GPU that no engine works on.
    pub(super) fn check_device(&self, config: &Config) -> Result<()> {
        match (self.engine, config.device.value) {
            (Some(name), _) => engines::available(config, Some(name)).map(drop),
            (None, DeviceRequest::Cuda(ordinal)) => engines::available(config, None).map(drop).map_err(|_| {
                Error::unsupported(format!("cuda:{ordinal}: the embedded engine works on the CPU"))
                    .with_hint(Remedy::use_device(&["cpu", "auto"]))
                    .or_hint(onnxruntime::how_to_get_provider("cuda"))
            }),
            (None, _) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn what_is_left_out_comes_from_the_settings() {
        let config = Config::of_flags(&[("precision", "int8"), ("tolerance", "0.5")]);
        let requirements = Requirements::new(&config, Requested::default()).unwrap();
        assert_eq!(
            requirements,
            Requirements { precision: Wanted::Int8, tolerance: 0.5, engine: None, objective: None }
        );
        let asked = Requested {
            precision: Some("fp32"),
            tolerance: Some(0.0),
            engine: Some("rten"),
            objective: Some("memory"),
        };
        let requirements = Requirements::new(&config, asked).unwrap();
        assert_eq!(
            requirements,
            Requirements {
                precision: Wanted::Fp32,
                tolerance: 0.0,
                engine: Some(EngineName::Rten),
                objective: Some(Objective::Memory)
            }
        );
    }

    #[test]
    fn wrong_terms_are_refused() {
        let config = Config::of_flags(&[]);
        let refused = |asked| Requirements::new(&config, asked).unwrap_err().to_string();
        assert_eq!(
            refused(Requested { tolerance: Some(-1.0), ..Requested::default() }),
            "tolerance: -1 is not 0 or more"
        );
        assert!(refused(Requested { tolerance: Some(f64::NAN), ..Requested::default() }).contains("NaN"));
        assert_eq!(refused(Requested { engine: Some("warp"), ..Requested::default() }), "unknown engine `warp`");
        assert_eq!(refused(Requested { objective: Some("p95"), ..Requested::default() }), "unknown objective `p95`");
        assert_eq!(refused(Requested { precision: Some("bf16"), ..Requested::default() }), "unknown precision `bf16`");
    }

    /// BF16 must not become FP32 silently.
    #[test]
    fn bf16_is_refused_and_a_flag_overrides_it() {
        for flags in [
            &[("precision", "bf16")][..],
            &[("tensor_optimizations.mixed_precision", "true"), ("tensor_optimizations.target_precision", "bf16")],
            &[("tensor_optimizations.target_precision", "bf16")],
        ] {
            let config = Config::of_flags(flags);
            let error = Requirements::new(&config, Requested::default()).unwrap_err();
            assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("bf16"), "{error}");
            let requirements =
                Requirements::new(&config, Requested { precision: Some("fp32"), ..Requested::default() }).unwrap();
            assert_eq!(requirements.precision, Wanted::Fp32);
        }
    }
}
