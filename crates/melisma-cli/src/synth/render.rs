//! Renders a score into files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use indicatif::ProgressBar;
use melisma::audio::Meter;
use melisma::audio::wav::SampleFormat;
use melisma::output::{self, Existing};
use melisma::runtime::device::{Device, Queue};
use melisma::synth::{Block, Capture, Level, Parts, Performance, Recording, Setup, balance, record};
use melisma::{Budget, Error, ErrorKind, Remedy, Result};

use super::request::RenderRequest;
use super::sink::{Sink, interleave};
use super::source::{ReservedScore, Sampled};
use crate::progress;
use crate::session::Session;

/// The result of a render.
pub struct Rendered {
    pub voices: usize,
    pub dropped: u64,
    /// Samples of stems that the file's format clips.
    pub clipped: u64,
    pub samples: u64,
    pub sample_rate: u32,
    pub level: Level,
    pub peak_dbtp: Option<f64>,
    pub loudness_lufs: Option<f64>,
    pub stems: Vec<String>,
}

impl Rendered {
    pub fn seconds(&self) -> f64 {
        self.samples as f64 / f64::from(self.sample_rate)
    }

    pub fn gain_db(&self) -> f64 {
        self.level.gain_db()
    }
}

impl RenderRequest {
    /// Plays `score` once to measure its level, and once more into the files. A GPU renders the
    /// voices beforehand.
    pub fn render(&self, session: &Session, source: &ReservedScore, device: &Device) -> Result<Rendered> {
        let memory = session.memory(device);
        let bar = |message: &str, performance: &Performance| {
            let bar = progress::bar(session, Some(performance.expected_samples()));
            bar.set_message(message.to_owned());
            bar
        };
        // Outputs are created first: if that fails, nothing needs to be rendered.
        let mut files = Files::create(self, source.parts.as_ref())?;
        let (queue, recording) = match device {
            Device::Cpu(_) => (Some(device.queue(memory.budget())?), None),
            Device::Cuda(_) => (None, self.record(memory.budget(), device, source)?),
        };
        let recording = match (&source.sampled, self.loudness) {
            // The parts of a SoundFont's voices are not recorded.
            (Some(sampled), Some(_)) if source.parts.is_none() => self.sampled(sampled, memory.budget())?,
            _ => recording,
        };
        let dry = Dry { source, queue: queue.as_ref(), recording };
        let level = self.level(&dry, |performance| bar("listening", performance))?;
        let performance = dry.play(self.setup(level.gain))?;
        let performance = match &source.parts {
            Some(parts) => performance.with_parts(parts)?,
            None => performance,
        };
        let bar = bar("rendering", &performance);
        let rendered = self.play(performance, queue.as_ref(), &bar, &mut files)?;
        bar.finish_and_clear();
        let stems = files.finish()?;
        Ok(Rendered { level, stems, ..rendered })
    }

    /// Records the voices of a SoundFont once, to be played for the level and again for the files. Returns none
    /// where they do not fit into memory.
    fn sampled(&self, sampled: &Sampled, budget: &Budget) -> Result<Option<Arc<Recording>>> {
        match Recording::sampled(&sampled.sequence, &sampled.font, (self.setup(1.0), budget)) {
            Err(error) if error.kind() == ErrorKind::Memory => Ok(None),
            recorded => Ok(Some(Arc::new(recorded?))),
        }
    }

    /// Renders the voices beforehand.
    fn record(&self, budget: &Budget, device: &Device, source: &ReservedScore) -> Result<Option<Arc<Recording>>> {
        let take = self.take(&source.score).with_parts(source.parts.as_ref());
        Ok(record(device, budget, self.layout.sample_rate, &[take])?.pop().map(Arc::new))
    }

    /// Returns the gain for the requested loudness.
    fn level(&self, dry: &Dry<'_>, bar: impl Fn(&Performance) -> ProgressBar) -> Result<Level> {
        let Some(target) = self.loudness else { return Ok(Level::UNCHANGED) };
        let _span = tracing::info_span!("level").entered();
        balance(self.setup(1.0), target, |setup| {
            let mut performance = dry.play(setup)?;
            let bar = bar(&performance);
            let mut meter = Meter::new(self.layout.sample_rate);
            while let Some(block) = performance.next_block(dry.queue)? {
                meter.push(block.left, block.right);
                bar.inc(block.left.len() as u64);
            }
            bar.finish_and_clear();
            Ok(meter)
        })
    }

    /// Captures of one run replace each other, but never files that existed before.
    fn check_capture(&self, folder: &Path) -> Result<()> {
        let paths = ["capture.wav", "capture.json"].map(|name| folder.join(name));
        paths.iter().try_for_each(|path| output::refuse_input(path))?;
        match paths.into_iter().find(|path| path.symlink_metadata().is_ok()) {
            Some(path) if self.layout.existing == Existing::Refuse => {
                Err(Error::invalid(format!("{}: the file exists already", path.display()))
                    .with_hint(Remedy::Replace)
                    .or_hint("choose another folder"))
            }
            _ => Ok(()),
        }
    }

    fn play(
        &self,
        mut performance: Performance,
        queue: Option<&Queue>,
        bar: &ProgressBar,
        files: &mut Files,
    ) -> Result<Rendered> {
        let sample_rate = self.layout.sample_rate;
        let mut capture = self.capture.as_ref().map(|folder| Capture::start(folder, sample_rate)).transpose()?;
        let mut meter = Meter::new(sample_rate);
        let mut samples = 0;
        while let Some(block) = performance.next_block(queue)? {
            if let Some(capture) = &mut capture {
                capture.push(block.left, block.right);
            }
            meter.push(block.left, block.right);
            files.write(&block)?;
            samples += block.left.len() as u64;
            bar.inc(block.left.len() as u64);
        }
        if let Some(capture) = capture {
            capture.finish()?;
        }
        Ok(Rendered {
            voices: performance.most_voices(),
            dropped: performance.dropped(),
            clipped: files.clipped,
            samples,
            sample_rate,
            level: Level::UNCHANGED,
            peak_dbtp: meter.peak_dbtp(),
            loudness_lufs: meter.integrated(),
            stems: Vec::new(),
        })
    }
}

/// Source of the dry voices: the CPU's threads during playback, a recording, or a SoundFont.
struct Dry<'a> {
    source: &'a ReservedScore,
    queue: Option<&'a Queue>,
    recording: Option<Arc<Recording>>,
}

impl Dry<'_> {
    fn play(&self, setup: Setup) -> Result<Performance> {
        match (&self.source.sampled, &self.recording) {
            (Some(sampled), Some(recording)) => {
                Performance::recorded(sampled.sequence.score(), setup, recording.clone())
            }
            (Some(sampled), None) => Performance::sampled(&sampled.sequence, &sampled.font, setup),
            (None, Some(recording)) => Performance::recorded(&self.source.score, setup, recording.clone()),
            (None, None) => Performance::new(&self.source.score, setup),
        }
    }
}

/// The mix, and the stem of each part.
struct Files {
    mix: Sink,
    stems: Vec<(PathBuf, Sink)>,
    scratch: Vec<f32>,
    /// Whether samples beyond full scale are clipped, and how many samples of the stems were.
    format: SampleFormat,
    clipped: u64,
}

impl Files {
    fn create(request: &RenderRequest, parts: Option<&Parts>) -> Result<Self> {
        let mix = Sink::create(&request.output, request.layout)?;
        let mut stems = Vec::new();
        if let (Some(folder), Some(parts)) = (&request.stems, parts) {
            output::create_directory(folder)?;
            // A pipe carries WAV.
            let suffix = request.output.extension().unwrap_or("wav".as_ref());
            for name in parts.names() {
                let path = folder.join(name).with_extension(suffix);
                let sink = Sink::create(&path, request.layout)?;
                stems.push((path, sink));
            }
        }
        if let Some(folder) = &request.capture {
            request.check_capture(folder)?;
        }
        Ok(Self { mix, stems, scratch: Vec::new(), format: request.layout.format, clipped: 0 })
    }

    fn write(&mut self, block: &Block<'_>) -> Result<()> {
        let Self { mix, stems, scratch, format, clipped } = self;
        copy_out([block.left, block.right], scratch, mix)?;
        for (part, (_, sink)) in stems.iter_mut().enumerate() {
            copy_out(block.part(part), scratch, sink)?;
            if !format.is_float() {
                *clipped += scratch.iter().filter(|sample| sample.abs() > 1.0).count() as u64;
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<String>> {
        self.mix.finish()?;
        let mut paths = Vec::new();
        for (path, sink) in self.stems {
            sink.finish()?;
            paths.push(path.display().to_string());
        }
        Ok(paths)
    }
}

fn copy_out([left, right]: [&[f32]; 2], scratch: &mut Vec<f32>, sink: &mut Sink) -> Result<()> {
    {
        let _span = tracing::info_span!("interleave", bytes = 2 * size_of_val(left) as u64).entered();
        interleave(left, right, scratch);
    }
    let _span = tracing::info_span!("write").entered();
    sink.write(scratch)
}
