//! The request that `melisma synth` carries out.

use std::path::PathBuf;

use melisma::audio::wav::SampleFormat;
use melisma::synth::{BusConfig, Length, Score, Setup, Take};
use melisma::{Error, Result};

use super::piece;
use super::sink::Layout;
use crate::args::SynthArgs;
use crate::session::Session;

/// What to render, and where to.
pub struct RenderRequest {
    pub output: PathBuf,
    pub layout: Layout,
    pub length: Length,
    pub loudness: Option<f64>,
    pub stems: Option<PathBuf>,
    pub capture: Option<PathBuf>,
}

impl RenderRequest {
    pub fn new(session: &Session, args: &SynthArgs) -> Result<Self> {
        let seconds = match piece::style(args)? {
            Some(_) if !args.endless => Some(piece::seconds(args)),
            _ => args.seconds,
        };
        let samples = |seconds: f64| Length::Samples((seconds * f64::from(args.rate)).round().max(1.0) as u64);
        Ok(Self {
            output: args.output().to_owned(),
            layout: Layout {
                sample_rate: args.rate,
                format: SampleFormat::from_name(&args.sample_format).unwrap_or_default(),
                existing: session.existing,
            },
            length: seconds.map_or(Length::Whole, samples),
            loudness: loudness(args)?,
            stems: args.stems.clone(),
            capture: args.debug_capture.clone(),
        })
    }

    /// Returns the part of a score to record.
    pub fn take<'a>(&self, score: &'a Score) -> Take<'a> {
        self.setup(1.0).take(score)
    }

    pub fn setup(&self, gain: f32) -> Setup {
        let bus = BusConfig::new(self.layout.sample_rate).with_level(gain);
        Setup::new(bus).with_length(self.length)
    }
}

/// Returns the requested loudness.
pub fn loudness(args: &SynthArgs) -> Result<Option<f64>> {
    match args.loudness.as_str() {
        "off" => Ok(None),
        text => text.parse().ok().filter(|lufs| (-70.0..=0.0).contains(lufs)).map(Some).ok_or_else(|| {
            Error::invalid(format!("--loudness {text}: expected -70 to 0 LUFS, or off"))
                .with_hint("-14 to -23 is usual for music")
        }),
    }
}
