//! The device that renders the voices.

use melisma::config::DeviceRequest;
use melisma::runtime::device;
use melisma::synth::DeviceChoice;
use melisma::{Error, Result};

use super::request::loudness;
use crate::args::SynthArgs;
use crate::session::Session;

/// Chooses the device for this many seconds of voices. If the level is measured first, the CPU
/// plays twice.
pub fn choose(session: &Session, args: &SynthArgs, voice_seconds: Result<f64>) -> Result<DeviceChoice> {
    let n_passes = if loudness(args)?.is_some() { 2.0 } else { 1.0 };
    let (request, threads) = (session.config.device.value, session.config.threads.value);
    let cpu = device::select(DeviceRequest::Cpu, threads)?;
    let budget = session.memory(&cpu).budget();
    melisma::synth::choose_device(request, threads, budget, voice_seconds.map(|seconds| n_passes * seconds))
}

pub fn describe(choice: &DeviceChoice) -> String {
    format!("voices on {}: {}\n", choice.device, choice.reason)
}

/// Returns the CPU, on which SoundFonts are played.
pub fn cpu(session: &Session) -> Result<DeviceChoice> {
    let (request, threads) = (session.config.device.value, session.config.threads.value);
    let only = Error::unsupported("a SoundFont is played on the CPU").with_hint("use --device cpu");
    if let DeviceRequest::Cuda(_) = request {
        return Err(only);
    }
    let cpu = device::select(DeviceRequest::Cpu, threads)?;
    let budget = session.memory(&cpu).budget();
    melisma::synth::choose_device(request, threads, budget, Err(only))
}
