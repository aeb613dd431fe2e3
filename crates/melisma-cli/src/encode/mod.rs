//! `melisma encode`: audio to tokens.

use std::path::Path;
use std::time::{Duration, Instant};

use melisma::audio::wav;
use melisma::output;
use melisma::output::OutputFile;
use melisma::runtime::memory::{Needed, Reservation, Space};
use melisma::snac::tokens::{Format, to_ids, to_json, to_npy, to_orpheus, to_safetensors};
use melisma::snac::{Codes, Config, Model, slots};
use melisma::text::{count, duration};
use melisma::{Error, Kind, Result};
use serde_json::json;

use crate::args::EncodeArgs;
use crate::codec::{Codec, encoder_device, loaded_bytes, with_hint};
use crate::decode::refuse_mixing;
use crate::input::{Input, is_pipe};
use crate::progress;
use crate::session::Session;
use crate::terminal;
use crate::terminal::is_closed_pipe;

/// The largest WAV file in bytes; the file is held in memory.
const MAX_WAV_LEN: u64 = 4 << 30;
/// Planes of a piece that a strided convolution and its neighbours hold at once.
const PLANES: usize = 10;

/// The token format to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Orpheus,
    Ids,
    Json,
    Npy,
    Safetensors,
}

pub fn run(session: &Session, args: &EncodeArgs) -> Result<()> {
    let _span = tracing::info_span!("encode").entered();
    let written = Written::choose(&args.output, Format::from_name(&args.format).unwrap_or_default())?;
    refuse_mixing(session, &args.output)?;
    let input = Input::open(&args.input)?;
    let name = input.name().to_owned();
    let file = match is_pipe(&args.output) {
        true => None,
        false => Some(OutputFile::create(&args.output, session.existing)?),
    };
    let device = encoder_device(session.config.device.value, session.config.threads.value)?;
    let audio_bytes = audio_bytes(&input, &args.input);
    // If the configuration cannot be read, opening the model reports the reason.
    let working = Config::open(&args.model).map_or(0, |config| working_bytes(&config));
    let host = loaded_bytes(&args.model) + working + audio_bytes;
    session.require(&device, "encoding this file", Needed { host, device: 0 })?;
    let memory = session.memory(&device);
    let codec = Codec::open_on(memory, &device, &args.model)?;
    let _working = memory.reserve(Space::Host, working)?;
    written.check(&codec.model)?;
    let start = Instant::now();
    let sound = Sound::read(session, &codec, input).map_err(|error| at(error, &name))?;
    let bar = progress::bar(session, None);
    bar.set_message(format!("encoding {}", duration::show(Duration::from_secs_f64(sound.seconds))));
    bar.enable_steady_tick(Duration::from_millis(100));
    let codes = codec.model.encode(&sound.samples);
    let codes = codes.map_err(|error| with_hint(error.at(&name), "repair the file: samples must be finite numbers"));
    bar.finish_and_clear();
    let codes = codes?;
    let bytes = written.bytes(&codec.model, &codes)?;
    match file {
        Some(mut file) => {
            std::io::Write::write_all(&mut file, &bytes).map_err(|error| output::failed(&args.output, error))?;
            file.commit()?;
        }
        // Only text formats can go to a pipe.
        None => match terminal::send(&bytes) {
            Err(error) if is_closed_pipe(&error) => return Ok(()),
            sent => sent?,
        },
    }
    let wall = start.elapsed();
    let n_tokens = codes.n_frames() * slots(codec.model.config()).len();
    let text = || {
        let seconds = duration::show(Duration::from_secs_f64(sound.seconds));
        let frames = count(codes.n_frames() as u64, "frame");
        let tokens = count(n_tokens as u64, "token");
        format!("{frames}, {tokens} of {seconds} of audio in {}\n", duration::show(wall))
    };
    if is_pipe(&args.output) {
        session.say(text().trim_end());
        return Ok(());
    }
    let json = json!({
        "frames": codes.n_frames(),
        "tokens": n_tokens,
        "audio_seconds": sound.seconds,
        "wall_seconds": wall.as_secs_f64(),
        "load_seconds": codec.load_seconds,
        "format": written.name(),
        "model": { "source": args.model, "hash": codec.model.hash() },
        "notes": sound.notes,
    });
    session.print(&codec.device, text, json)
}

/// Names the input in errors about it, but not in errors about the memory limit.
fn at(error: Error, input: &str) -> Error {
    if error.kind() == Kind::Memory { error } else { error.at(input) }
}

/// The most bytes the encoder works with: a piece of audio in all channels, with the taps of a
/// convolution.
fn working_bytes(config: &Config) -> u64 {
    let window = config.attn_window_size.unwrap_or(1);
    let piece = config.hop_len() * config.frame_latents() * window;
    (PLANES * size_of::<f32>() * piece * config.encoder_dim) as u64
}

/// Bytes of a file held in memory, plus its samples as floats if the header gives their number.
fn audio_bytes(input: &Input, path: &Path) -> u64 {
    let header = wav::File::open(path).ok().map(|file| (file.header().n_frames(), file.header().n_channels as u64));
    let samples = header.map_or(0, |(n_frames, n_channels)| float_bytes(n_frames, n_channels));
    input.len().unwrap_or(0).min(MAX_WAV_LEN).saturating_add(samples)
}

/// Bytes of all channels and their mean.
fn float_bytes(n_frames: u64, n_channels: u64) -> u64 {
    4 * n_frames.saturating_mul(n_channels + 1)
}

/// One channel at the model's sample rate.
struct Sound {
    samples: Vec<f32>,
    seconds: f64,
    notes: Vec<String>,
    _memory: Reservation,
}

impl Sound {
    fn read(session: &Session, codec: &Codec, input: Input) -> Result<Self> {
        let what = "this audio file";
        let bytes = session.read_all(&codec.device, input, MAX_WAV_LEN, 1)?;
        let file = session.reserve(&codec.device, what, bytes.len() as u64)?;
        let wav = wav::read(&bytes).map_err(|error| match error.kind() {
            Kind::Truncated => with_hint(error, "the file was cut off: make or fetch it again"),
            _ => with_hint(error, "only WAV is read: convert it, as in `ffmpeg -i IN -ar 24000 -ac 1 OUT.wav`"),
        })?;
        let rate = codec.model.config().sampling_rate;
        if wav.sample_rate != rate {
            let message = format!("the sample rate is {} Hz, this model needs {rate} Hz", wav.sample_rate);
            let hint = format!("resample it first, as in `ffmpeg -i IN -ar {rate} OUT.wav`");
            return Err(Error::invalid(message).with_hint(hint));
        }
        let samples = float_bytes(wav.n_frames() as u64, wav.n_channels as u64);
        let memory = session.reserve(&codec.device, what, samples)?;
        let mut notes: Vec<String> = wav.note.iter().cloned().collect();
        if wav.n_channels > 1 {
            notes.push(format!("{} channels were mixed down to one", wav.n_channels));
        }
        notes.iter().for_each(|note| session.say(&format!("note: {note}")));
        let clip = wav.to_clip();
        let seconds = clip.seconds();
        let samples = if clip.n_channels == 1 { clip.samples } else { clip.downmix() };
        drop(file);
        Ok(Self { samples, seconds, notes, _memory: memory })
    }
}

impl Written {
    fn choose(path: &Path, format: Format) -> Result<Self> {
        let suffix = path.extension().map(|suffix| suffix.to_string_lossy().to_lowercase());
        let by_suffix = match suffix.as_deref() {
            _ if is_pipe(path) => Some(Self::Orpheus),
            Some("txt") => Some(Self::Orpheus),
            Some("json") => Some(Self::Json),
            Some("npy") => Some(Self::Npy),
            Some("safetensors") => Some(Self::Safetensors),
            _ => None,
        };
        let is_list = matches!(by_suffix, Some(Self::Json | Self::Npy | Self::Safetensors));
        match format {
            Format::Auto => by_suffix.ok_or_else(|| {
                Error::invalid(format!("{}: its suffix does not say how to write tokens", path.display()))
                    .with_hint("name it .txt, .json, .npy or .safetensors, or use --format")
            }),
            Format::Orpheus | Format::Ids if is_list => {
                let message = format!("{}: this suffix is for lists of codes", path.display());
                Err(Error::invalid(message).with_hint("name it .txt, or use --format codes"))
            }
            Format::Orpheus => Ok(Self::Orpheus),
            Format::Ids => Ok(Self::Ids),
            Format::Codes if is_list => Ok(by_suffix.unwrap_or(Self::Json)),
            Format::Codes => Ok(Self::Json),
        }
    }

    /// Rejects before any work what the writer would reject after it.
    fn check(self, model: &Model) -> Result<()> {
        self.bytes(model, &Codes::empty(model.config())).map(drop)
    }

    fn bytes(self, model: &Model, codes: &Codes) -> Result<Vec<u8>> {
        Ok(match self {
            Self::Orpheus => to_orpheus(model, codes)?.into_bytes(),
            Self::Ids => to_ids(model, codes)?.into_bytes(),
            Self::Json => to_json(model, codes).into_bytes(),
            Self::Npy => to_npy(model, codes),
            Self::Safetensors => to_safetensors(model, codes),
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Orpheus => "orpheus",
            Self::Ids => "ids",
            Self::Json | Self::Npy | Self::Safetensors => "codes",
        }
    }
}
