//! The room `synth`: voices, phrases and live streams, beside one voice at a time, PyTorch and FluidSynth.
//!
//! `MELISMA_BENCH_SECONDS` shortens the run of live streams; records use its default.

mod batching;
mod file;
mod gpu;
mod live;
mod pads;
mod phrase;
mod soundfont;

use std::time::Duration;

use melisma::Result;
use melisma::synth::patch::{self, Pitch, Touch};
use melisma::synth::{Chord, Instrument, Kick, Melody, Phrase, Swell};
use melisma_kernels::Device;

use super::folder::Folder;
use super::measure::{live_time, of_times, quantiles};
use super::peer::figures;
use super::{BenchContext, Peer, Plan, Row, first_call, measure, peer};

const PEERS: &str = include_str!("../peers/synth.py");
const RATE: u32 = 48_000;

pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let (mut rows, parts): (_, &[&[&str]]) = match context.device {
        Device::Cpu(_) => (cpu_rows(live_time()?)?, &[&["cpu"]]),
        Device::Cuda(_) => (gpu::rows(context.device)?, &[&["cuda"]]),
    };
    rows.push(first_call(context.device)?);
    for (name, peers) in figures("PyTorch", PEERS, parts) {
        if let Some(row) = rows.iter_mut().find(|row: &&mut Row| row.name == name) {
            row.peers.extend(peers.into_iter().map(|(name, median)| Peer { name, median }));
        }
    }
    Ok(rows)
}

fn cpu_rows(live: Duration) -> Result<Vec<Row>> {
    let mut rows = pads::rows()?;
    rows.extend(batching::rows()?);
    rows.extend(phrase::rows()?);
    rows.extend(file::rows()?);
    rows.extend(soundfont::rows()?);
    rows.extend(live::rows(live)?);
    Ok(rows)
}

/// Measures from program start to the end of the first second of audio.
fn first_call(device: &Device) -> Result<Row> {
    let folder = Folder::create("synth-first")?;
    let (sound, device) = (folder.0.join("sound.wav"), device.to_string());
    let arguments =
        ["synth", "preset:focus", "--seconds", "1", "--seed", "1", "--device", &device, "--force", "--quiet"];
    let mut arguments: Vec<&std::ffi::OsStr> = arguments.iter().map(AsRef::as_ref).collect();
    arguments.extend(["-o".as_ref(), sound.as_os_str()]);
    first_call::row("synth/first call in a fresh process, 1 s of preset:focus", &arguments)
}

/// Returns pad number `index`, with keys over five octaves.
fn pad(index: usize) -> melisma_kernels::signal::voice::Voice {
    sound(Instrument::Pad, index)
}

fn sound(instrument: Instrument, index: usize) -> melisma_kernels::signal::voice::Voice {
    let pitch = Pitch { key: 36 + (index * 7 % 49) as u8, semitones: 0.0, sample_rate: RATE };
    let touch =
        Touch { velocity: 0.5, pan: (index % 9) as f32 / 4.0 - 1.0, seed: (index as u32).wrapping_mul(2_654_435_761) };
    patch::voice(instrument, pitch, touch)
}

/// Returns thirty seconds: 8 chords of 4 pads, 64 notes, 32 kicks, 4 swells.
fn long_phrase() -> Phrase {
    let chords = [[45, 57, 60, 64], [41, 53, 57, 60], [48, 55, 60, 64], [43, 55, 59, 62]];
    Phrase {
        seconds: 30.0,
        chords: (0..8u8)
            .map(|i| Chord {
                onset: 3.75 * f64::from(i),
                duration: 3.75,
                keys: chords[usize::from(i) % 4].to_vec(),
                velocity: 0.6,
            })
            .collect(),
        melody: (0..64u8)
            .map(|i| Melody {
                onset: 30.0 / 64.0 * f64::from(i),
                duration: 0.4,
                key: 69 + (u32::from(i) * 5 % 13) as u8,
                velocity: 0.5,
            })
            .collect(),
        kicks: (0..32u8).map(|i| Kick { onset: 30.0 / 32.0 * f64::from(i), velocity: 0.9 }).collect(),
        swells: (0..4u8).map(|i| Swell { onset: 7.5 * f64::from(i), duration: 5.0, velocity: 0.5 }).collect(),
    }
}

fn beside(mut row: Row, name: &str, median: f64) -> Row {
    row.peers.push(Peer { name: name.to_owned(), median });
    row
}

/// Returns the CPU seconds of this thread.
fn cpu_seconds() -> f64 {
    melisma_kernels::device::ceiling::thread_seconds()
}
