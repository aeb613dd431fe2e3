//! The voices of whole pieces, rendered in advance in large batches, which is where a GPU is fast.
//!
//! Long pieces are cut into windows. A window is rendered from the first note that sounds into it, starting at a multiple
//! of 512 samples, where a GPU cuts time as well. Its samples therefore have the same bits as in one piece.

use melisma_kernels::signal::voice::{Control, Controls, Note, TICK, check_gains};

use super::bulk::{BulkConfig, BulkRenderer};
use super::control::Glides;
use super::engine::{Buses, Stem};
use super::event::check_rate;
use super::length::Length;
use super::parameter::Parameter;
use super::part::Parts;
use super::score::Score;
use super::setup::{Setup, block_len};
use super::soundfont::{Player, Sequence, SoundFont};
use super::take::Take;
use crate::runtime::device::Device;
use crate::runtime::memory::{Budget, Reservation, Space};
use crate::text::size;
use crate::{Error, ErrorKind, Remedy, Result};

/// A window's length in seconds.
const WINDOW_SECONDS: u64 = 30;
/// The longest that a window may reach back, in seconds.
const MAX_REACH_SECONDS: u64 = 600;
/// Where windows may begin.
const GRAIN: u64 = 512;
/// The most bytes of a recording: an hour and a half of a mix, or a tenth of it with stems.
const MAX_BYTES: u64 = 2 << 30;
/// Bytes of a batch's samples.
const BATCH_BYTES: usize = 256 << 20;

/// The dry mix of a piece, and perhaps its stems.
#[derive(Debug)]
pub struct Recording {
    /// The mix, then the instruments or the parts; left and right in turns.
    mixes: Vec<Vec<f32>>,
    has_parts: bool,
    sample_rate: u32,
    most_voices: usize,
    _held: Reservation,
}

/// A take as notes.
#[derive(Debug)]
struct Sheet {
    notes: Vec<Voiced>,
    /// That at the first sample, then those at the end of each tick; empty where nothing moves.
    controls: Vec<Control>,
    n_samples: u64,
    most_voices: usize,
}

/// A note and the sample at which it has ended.
#[derive(Debug, Clone, Copy)]
struct Voiced {
    stem: Option<usize>,
    note: Note,
    end: u64,
}

/// Samples `keep` of a take, rendered from `begin` on.
#[derive(Debug, Clone, Copy)]
struct Window {
    take: usize,
    begin: u64,
    keep: [u64; 2],
}

impl Recording {
    /// Records what `font` plays of `sequence`, to be played by [`Performance::recorded`](super::Performance::recorded)
    /// with the sequence's score. The bits are those of [`Performance::sampled`](super::Performance::sampled).
    ///
    /// # Errors
    /// As there; `Memory` if `budget` has no room, or the piece is longer than an hour and a half at 48 kHz.
    pub fn sampled(sequence: &Sequence, font: &SoundFont, (setup, budget): (Setup, &Budget)) -> Result<Self> {
        let player = Player::new(sequence, font, setup.bus.sample_rate)?;
        let most = match setup.length {
            Length::Samples(n) => n,
            Length::Whole => player.longest(),
        };
        let rate = setup.bus.sample_rate;
        let bytes = most.saturating_mul(2 * size_of::<f32>() as u64);
        if bytes > MAX_BYTES {
            let message = format!("a recording of {} does not fit into {}", size::show(bytes), size::show(MAX_BYTES));
            return Err(Error::new(ErrorKind::Memory, message).with_hint("play it without a recording"));
        }
        let held = budget.reserve(Space::Host, bytes)?;
        let (mut player, mut samples, mut most_voices) = (player, Vec::new(), 0);
        let mut sides = [vec![0.0; block_len(rate)], vec![0.0; block_len(rate)]];
        while player.position() < most && !player.is_over() {
            let [left, right] = &mut sides;
            player.render(left, right)?;
            samples.extend(left.iter().zip(&*right).flat_map(|(left, right)| [*left, *right]));
            most_voices = most_voices.max(player.n_keys());
        }
        Ok(Self { mixes: vec![samples], has_parts: false, sample_rate: rate, most_voices, _held: held })
    }

    /// Returns the number of samples of each side; what comes after is silence.
    pub fn n_samples(&self) -> u64 {
        self.mixes[0].len() as u64 / 2
    }

    /// Returns the most voices that sound at once.
    pub fn most_voices(&self) -> usize {
        self.most_voices
    }

    pub(super) fn check(&self, sample_rate: u32, buses: Buses) -> Result<()> {
        let has_instruments = !self.has_parts && self.mixes.len() > 1;
        if sample_rate != self.sample_rate || (buses == Buses::Stems && !has_instruments) {
            return Err(Error::invalid(format!(
                "synth: a recording at {} Hz with {} stems does not fit",
                self.sample_rate,
                self.mixes.len() - 1
            )));
        }
        Ok(())
    }

    pub(super) fn check_parts(&self, parts: &Parts) -> Result<()> {
        if !self.has_parts || self.mixes.len() != 1 + parts.names().len() {
            return Err(Error::invalid("synth: the voices were recorded without these parts")
                .with_hint("record them by `Take::with_parts`, or play them without a recording"));
        }
        Ok(())
    }

    /// Reads the samples of a mix from `first` on.
    pub(super) fn read(&self, mix: usize, first: u64, out: Stem<'_>) {
        let samples = &self.mixes[mix];
        let from = usize::try_from(2 * first).unwrap_or(usize::MAX).min(samples.len());
        let frames = samples[from..].chunks_exact(2);
        let n = frames.len().min(out.left.len());
        for ((left, right), frame) in out.left.iter_mut().zip(out.right.iter_mut()).zip(frames) {
            (*left, *right) = (frame[0], frame[1]);
        }
        out.left[n..].fill(0.0);
        out.right[n..].fill(0.0);
    }
}

/// Returns the seconds of voices in a take: the measure of its cost.
///
/// # Errors
/// It cannot be recorded: it has bends, more voices at once than it may have, gains that add up to more than a GPU sums,
/// notes of more than ten minutes, or more samples than are held at once, or the rate is not one of an engine.
pub fn voice_seconds(take: Take<'_>, sample_rate: u32) -> Result<f64> {
    let sheet = Sheet::new(take, sample_rate)?;
    sheet.windows(0, sample_rate)?;
    let heard = |voiced: &Voiced| voiced.end.min(sheet.n_samples).saturating_sub(voiced.note.onset);
    Ok(sheet.notes.iter().map(heard).sum::<u64>() as f64 / f64::from(sample_rate))
}

/// Records all takes on `device`, one recording each, in batches, the next one rendered while the last is
/// copied.
///
/// # Errors
/// It cannot be recorded, for instance because it has bends; or memory is short, or the device fails.
pub fn record(device: &Device, budget: &Budget, sample_rate: u32, takes: &[Take<'_>]) -> Result<Vec<Recording>> {
    let _span = tracing::info_span!("record", takes = takes.len()).entered();
    let sheets = takes.iter().map(|&take| Sheet::new(take, sample_rate)).collect::<Result<Vec<_>>>()?;
    let mut recordings = Vec::new();
    let mut windows = Vec::new();
    for (index, (take, sheet)) in takes.iter().zip(&sheets).enumerate() {
        let n_mixes = take.n_mixes();
        let len = 2 * sheet.n_samples as usize;
        let held = budget.reserve(Space::Host, (n_mixes * len * size_of::<f32>()) as u64)?;
        let mixes = vec![vec![0.0; len]; n_mixes];
        let has_parts = take.parts.is_some();
        recordings.push(Recording { mixes, has_parts, sample_rate, most_voices: sheet.most_voices, _held: held });
        windows.extend(sheet.windows(index, sample_rate)?);
    }
    let longest = windows.iter().map(|window| window.keep[1] - window.begin).max().unwrap_or(0);
    let per_window = recordings.iter().map(|recording| recording.mixes.len()).max().unwrap_or(1);
    let n_windows = (BATCH_BYTES / (8 * per_window * longest.max(1) as usize)).clamp(1, windows.len().max(1));
    let config =
        BulkConfig { n_mixes: n_windows * per_window, seconds: longest as f64 / f64::from(sample_rate), sample_rate };
    let mut batches = Batches { renderer: BulkRenderer::new(device, budget, config)?, per_window, sheets: &sheets };
    let mut under_way = None;
    for batch in windows.chunks(n_windows) {
        let ticket = batches.start(batch)?;
        if let Some((ticket, batch)) = under_way.replace((ticket, batch)) {
            keep(batches.renderer.wait(ticket)?, batch, (longest, per_window), &mut recordings);
        }
    }
    if let Some((ticket, batch)) = under_way {
        keep(batches.renderer.wait(ticket)?, batch, (longest, per_window), &mut recordings);
    }
    Ok(recordings)
}

struct Batches<'a> {
    renderer: BulkRenderer,
    per_window: usize,
    sheets: &'a [Sheet],
}

impl Batches<'_> {
    fn start(&mut self, windows: &[Window]) -> Result<super::bulk::Ticket> {
        let n_controls = self.renderer.mix_len().div_ceil(TICK) + 1;
        let (mut notes, mut controls) = (Vec::new(), Vec::new());
        for (place, window) in windows.iter().enumerate() {
            let sheet = &self.sheets[window.take];
            let first_mix = place * self.per_window;
            for &Voiced { stem, note, .. } in sheet.notes.iter().filter(|voiced| window.has(voiced)) {
                let moved = Note {
                    mix: first_mix as u32,
                    onset: note.onset - window.begin,
                    release: note.release.map(|release| release - window.begin),
                    ..note
                };
                notes.push(moved);
                if let Some(stem) = stem {
                    notes.push(Note { mix: (first_mix + 1 + stem) as u32, ..moved });
                }
            }
            for _ in 0..self.per_window {
                let from = (window.begin / TICK as u64) as usize;
                let last = sheet.controls.last().copied().unwrap_or_default();
                let rest = sheet.controls.get(from..).unwrap_or_default().iter().copied();
                controls.extend(rest.chain(std::iter::repeat(last)).take(n_controls));
            }
        }
        // Mixes without a window.
        controls.resize(self.renderer.n_mixes() * n_controls, Control::default());
        let moves = self.sheets.iter().any(|sheet| !sheet.controls.is_empty());
        let controls = if moves { Controls::Moving(&controls) } else { Controls::Still(Control::default()) };
        self.renderer.start_notes(&notes, controls)
    }
}

/// Copies rendered windows into their recordings.
fn keep(samples: &[f32], windows: &[Window], (len, per_window): (u64, usize), recordings: &mut [Recording]) {
    for (place, window) in windows.iter().enumerate() {
        for (index, mix) in recordings[window.take].mixes.iter_mut().enumerate() {
            let [first, last] = window.keep.map(|at| 2 * at as usize);
            let from = 2 * ((place * per_window + index) as u64 * len + window.keep[0] - window.begin) as usize;
            mix[first..last].copy_from_slice(&samples[from..from + last - first]);
        }
    }
}

impl Window {
    fn has(&self, voiced: &Voiced) -> bool {
        voiced.note.onset < self.keep[1] && voiced.end > self.keep[0]
    }
}

impl Sheet {
    fn new(take: Take<'_>, sample_rate: u32) -> Result<Self> {
        let Take { score, length, max_voices, .. } = take;
        check_rate(sample_rate)?;
        score.check()?;
        if let Some(parts) = take.parts.filter(|parts| parts.n_notes() != score.notes.len()) {
            let message = format!("parts of {} notes do not fit a score of {}", parts.n_notes(), score.notes.len());
            return Err(Error::invalid(message).with_hint("make them of the same score or file"));
        }
        if !score.bends.is_empty() {
            return Err(refused("bends"));
        }
        let voiced = |(index, note): (usize, &super::score::Note)| {
            let voiced = note.placed(sample_rate).voiced(index as u64, sample_rate);
            Voiced { stem: take.stem(index, note.instrument), note: voiced, end: voiced.end() }
        };
        let notes: Vec<Voiced> = score.notes.iter().enumerate().map(voiced).collect();
        let end = notes.iter().map(|voiced| voiced.end).max().unwrap_or(0);
        // The limiter looks ahead of the samples that it returns.
        let n_samples = match length {
            Length::Whole => end,
            Length::Samples(n) => end.min(n.saturating_add(u64::from(sample_rate))),
        };
        let n_bytes = (take.n_mixes() as u64).saturating_mul(n_samples).saturating_mul(2 * size_of::<f32>() as u64);
        if n_bytes > MAX_BYTES {
            return Err(refused(&format!(
                "a recording of {} (at most {})",
                size::show(n_bytes),
                size::show(MAX_BYTES)
            )));
        }
        let voices: Vec<Note> = notes.iter().map(|voiced| voiced.note).collect();
        if check_gains(&voices, 1).is_err() {
            return Err(refused("voices that are too loud together for a GPU"));
        }
        let most_voices = most_at_once(&notes);
        if most_voices > max_voices {
            return Err(refused(&format!("{most_voices} voices at once (the limit is {max_voices})")));
        }
        Ok(Self { notes, controls: controls(score, sample_rate, n_samples), n_samples, most_voices })
    }

    fn windows(&self, take: usize, sample_rate: u32) -> Result<Vec<Window>> {
        let window_len = WINDOW_SECONDS * u64::from(sample_rate) / GRAIN * GRAIN;
        let mut windows = Vec::new();
        for first in (0..self.n_samples).step_by(window_len as usize) {
            let keep = [first, (first + window_len).min(self.n_samples)];
            let sounding = self.notes.iter().filter(|voiced| voiced.note.onset < first && voiced.end > first);
            let begin = sounding.map(|voiced| voiced.note.onset).min().unwrap_or(first) / GRAIN * GRAIN;
            if first - begin > MAX_REACH_SECONDS * u64::from(sample_rate) {
                return Err(refused("notes of more than ten minutes"));
            }
            windows.push(Window { take, begin, keep });
        }
        Ok(windows)
    }
}

fn refused(what: &str) -> Error {
    Error::unsupported(format!("{what}: played on the CPU only")).with_hint(Remedy::use_device(&["cpu", "auto"]))
}

fn most_at_once(notes: &[Voiced]) -> usize {
    let mut changes: Vec<(u64, i64)> =
        notes.iter().flat_map(|voiced| [(voiced.note.onset, 1), (voiced.end, -1)]).collect();
    changes.sort_unstable();
    let sums = changes.iter().scan(0, |sum, &(_, change)| {
        *sum += change;
        Some(*sum)
    });
    sums.max().unwrap_or(0) as usize
}

/// Returns the brightness and motion as an engine moves them.
fn controls(score: &Score, sample_rate: u32, n_samples: u64) -> Vec<Control> {
    let is_ours = |parameter: Parameter| matches!(parameter, Parameter::Brightness | Parameter::Motion);
    let mut coming = score.controls.iter().filter(|control| is_ours(control.parameter)).peekable();
    if coming.peek().is_none() {
        return Vec::new();
    }
    let mut glides = Glides::new(sample_rate);
    let mut controls = vec![glides.now()];
    for tick in 0..n_samples.div_ceil(TICK as u64) {
        let due = |at: f64| (at * f64::from(sample_rate)).round() as u64 <= tick * TICK as u64;
        while let Some(control) = coming.next_if(|control| due(control.at)) {
            glides.set(control.parameter, control.value);
        }
        glides.next();
        controls.push(glides.now());
    }
    controls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_lengths_of_any_size_are_measured_or_refused() {
        let score = Score::from_json(br#"{"tempo": 120, "notes": [{"instrument": "lead", "start": 0, "duration": 1, "key": 60, "velocity": 1}]}"#).unwrap();
        for length in [Length::Whole, Length::Samples(0), Length::Samples(1), Length::Samples(u64::MAX)] {
            let take = Take { score: &score, length, buses: Buses::Mix, parts: None, max_voices: 1 };
            for rate in [0, 1, 2, 17, 18, 7_999, 192_001, u32::MAX] {
                let error = voice_seconds(take, rate).unwrap_err();
                assert!(error.to_string().contains("8000 to 192000 is allowed"), "{error}");
            }
            assert!(voice_seconds(take, 8_000).unwrap() >= 0.0);
        }
    }
}
