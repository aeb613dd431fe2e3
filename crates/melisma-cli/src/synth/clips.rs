//! `melisma synth --clips`: a folder of clips with their notes and parameters, for `dataset build`
//! and training.

use std::ops::Range;
use std::time::Instant;

use melisma::audio::wav::SampleFormat;
use melisma::config::DeviceRequest;
use melisma::output;
use melisma::runtime::device::{self, Device};
use melisma::runtime::memory::{Reservation, Space};
use melisma::synth::{Clip, ClipTotal, Clips, seed, voice_seconds};
use melisma::text::{count, realtime};
use melisma::{Error, Result};
use serde_json::json;

use super::choice::{choose, describe};
use super::request::loudness;
use super::{choice, piece, source};
use crate::args::SynthArgs;
use crate::dataset::watch;
use crate::session::Session;
use crate::{interrupt, progress, terminal};

/// A clip's length without `--seconds`.
const DEFAULT_SECONDS: f64 = 10.0;

pub fn run(session: &Session, args: &SynthArgs, n: u32) -> Result<()> {
    let style = piece::style(args)?.ok_or_else(|| {
        Error::invalid(format!("{}: --clips needs a preset", args.score())).with_hint("name one, as in preset:focus")
    })?;
    if args.output().extension().is_some() {
        return Err(Error::invalid(format!("{}: --clips needs a folder", args.output().display()))
            .with_hint("name a folder without a suffix"));
    }
    let part = Clips::shard(n, watch::shard(args.shard.as_deref())?);
    let clips = Clips::new(style, args.seconds.unwrap_or(DEFAULT_SECONDS), args.output().to_owned())
        .with_first_seed(seed(piece::seed_text(args)))
        .with_sample_rate(args.rate)
        .with_format(SampleFormat::from_name(&args.sample_format).unwrap_or_default())
        .with_loudness(loudness(args)?)
        .with_existing(session.existing);
    let cpu = device::select(DeviceRequest::Cpu, session.config.threads.value)?;
    let font = args.soundfont.as_ref().map(|path| source::font((session, &cpu), path, 0)).transpose()?;
    let (font, _font_memory) = font.unzip();
    let clips = clips.with_soundfont(font);
    let sample = clips.compose(part.start)?;
    let per_clip = voice_seconds(clips.take(&sample.score), args.rate);
    let n_clips = part.len() as u64;
    let choice = match clips.soundfont {
        None => choose(session, args, per_clip.map(|seconds| seconds * n_clips as f64))?,
        Some(_) => choice::cpu(session)?,
    };
    output::create_directory(args.output())?;
    let folder = terminal::name(args.output());
    interrupt::on_interrupt(move || {
        Some(format!("the finished clips stay in {folder}; run the same command again to resume"))
    });
    let start = Instant::now();
    let total = make(session, &clips, (&choice.device, &sample), part)?;
    let wall = start.elapsed().as_secs_f64();
    let seconds = total.samples as f64 / f64::from(args.rate);
    let text = || {
        let speed = realtime(seconds, wall);
        let kept = match total.kept {
            0 => String::new(),
            kept => format!("{} already there\n", count(kept, "clip")),
        };
        format!(
            "{}, {seconds:.0} s of audio, {} in {wall:.1} s ({speed})\n{kept}{}",
            count(n_clips - total.kept, "clip"),
            count(total.notes as u64, "note"),
            describe(&choice)
        )
    };
    let json = json!({
        "clips": n_clips, "clips_kept": total.kept,
        "voices": total.voices, "notes": total.notes, "samples": total.samples, "sample_rate_hz": args.rate,
        "audio_seconds": seconds, "wall_seconds": wall, "output": args.output().display().to_string(),
        "seed": piece::seed_text(args), "device_reason": choice.reason,
    });
    session.print(&choice.device, text, json)
}

fn make(session: &Session, clips: &Clips, (device, sample): (&Device, &Clip), part: Range<u32>) -> Result<ClipTotal> {
    let bar = progress::bar(session, Some(part.len() as u64));
    let (n_threads, _memory) = threads(session, clips, device, sample)?;
    let tick = || {
        bar.inc(1);
        Ok(())
    };
    let total = clips.make(part, (device, session.memory(device).budget(), n_threads), &tick)?;
    bar.finish_and_clear();
    Ok(total)
}

/// Returns the number of rendering threads that fit under the memory limit, and the reservation for them
/// and the waiting clips.
fn threads(session: &Session, clips: &Clips, device: &Device, sample: &Clip) -> Result<(usize, Reservation)> {
    let wanted = match device {
        Device::Cpu(cpu) => cpu.threads.max(1),
        Device::Cuda(_) => device::available_threads(),
    };
    let [waiting, each] = clips.bytes(sample);
    let free = session.memory(device).budget().free(Space::Host);
    let n = usize::try_from(free.saturating_sub(waiting) / each).unwrap_or(usize::MAX).clamp(1, wanted);
    let memory = session.reserve(device, "rendering a clip", waiting + n as u64 * each)?;
    Ok((n, memory))
}
