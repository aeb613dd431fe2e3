//! `melisma mel`.

mod list;
mod need;
mod pipe;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use melisma::audio::{Facts, Reads, SampleType, Source, Target};
use melisma::format::{npy, safetensors};
use melisma::mel::{Config, Spectrogram, Transform, picture};
use melisma::output::{self, Existing, OutputFile};
use melisma::text::count;
use melisma::{Error, Result};
use serde_json::{Value, json};

use crate::args::{MelArgs, MelSettings};
use crate::session::Session;
use crate::terminal;

/// The most samples held at once: 24 hours at 48 kHz.
const MAX_SAMPLES: u64 = 24 * 3600 * 48_000;

/// Returns the configuration that `settings` ask for.
pub fn config(settings: &MelSettings) -> Result<Config> {
    let mut config = Config::preset(&settings.preset)?;
    settings.set.iter().try_for_each(|assignment| config.set(assignment))?;
    Ok(config)
}

/// One input's result.
struct Done {
    path: String,
    shape: [usize; 2],
    seconds: f64,
    from_hz: u32,
    note: Option<String>,
}

pub fn run(session: &Session, args: &MelArgs) -> Result<()> {
    let _span = tracing::info_span!("mel").entered();
    if args.list {
        return list::run(session, &args.mel);
    }
    let output = args.output.as_deref().ok_or_else(|| Error::invalid("an output is needed"))?;
    let kind = Kind::of(output, args.inputs.len())?;
    let context = session.context()?;
    let config = config(&args.mel)?;
    let transform = Transform::new_in(context, config.clone())?;
    let pipes: Vec<Option<OutputFile>> = args.inputs.iter().map(|path| pipe::spool(path)).collect::<Result<_>>()?;
    let place = |index: usize| pipes[index].as_ref().and_then(OutputFile::unfinished).unwrap_or(&args.inputs[index]);
    let mut facts = Vec::new();
    for (index, path) in args.inputs.iter().enumerate() {
        facts.push(inspect(place(index), &config).map_err(|error| error.at(path.display()))?);
    }
    let _held = need::reserve(context, kind, &transform, &facts)?;
    let names = names(&args.inputs);
    if kind == Kind::Folder {
        names.iter().try_for_each(|name| output::refuse_input(&output.join(format!("{name}.npy"))))?;
        output::create_directory(output)?;
    }
    let (mut done, mut mels) = (Vec::new(), Vec::new());
    for (index, ((path, facts), name)) in args.inputs.iter().zip(&facts).zip(&names).enumerate() {
        let start = Instant::now();
        let mel = spectrogram(&transform, place(index), facts).map_err(|error| error.at(path.display()))?;
        let (path, seconds) = (path.display().to_string(), start.elapsed().as_secs_f64());
        done.push(Done { path, shape: mel.shape, seconds, from_hz: facts.sample_rate, note: facts.note.clone() });
        match kind {
            Kind::Npy => write_npy(output, &mel, session.existing)?,
            Kind::Folder => write_npy(&output.join(format!("{name}.npy")), &mel, session.existing)?,
            Kind::Picture => output::write(output, &picture::encode(&mel, &config), session.existing)?,
            Kind::Safetensors => mels.push(mel),
        }
    }
    if kind == Kind::Safetensors {
        output::write(output, &tensors(&mels, names)?, session.existing)?;
    }
    for one in &done {
        if let Some(note) = &one.note {
            session.say(&format!("note: {}", terminal::one_line(&format!("{}: {note}", one.path))));
        }
    }
    let file = |one: &Done| {
        json!({
            "path": one.path, "shape": one.shape, "seconds": one.seconds,
            "sample_rate_hz": one.from_hz, "resampled": one.from_hz != config.sample_rate, "note": one.note,
        })
    };
    let files: Vec<Value> = done.iter().map(file).collect();
    let text = || {
        let line = |one: &Done| format!("{} {:?} {:.3} s\n", terminal::one_line(&one.path), one.shape, one.seconds);
        done.iter().map(line).collect::<String>()
    };
    session.print(context.device(), text, json!({ "files": files, "output": output.display().to_string() }))
}

/// The kind of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Npy,
    Picture,
    Safetensors,
    /// One npy file per input.
    Folder,
}

impl Kind {
    fn of(output: &Path, n_inputs: usize) -> Result<Self> {
        let suffix = output.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
        match (suffix, n_inputs) {
            ("npy", 1) => Ok(Self::Npy),
            ("png", 1) => Ok(Self::Picture),
            ("safetensors", _) => Ok(Self::Safetensors),
            ("", _) if output.exists() && !output.is_dir() => Err(Error::invalid(format!(
                "{}: an output without a suffix is a folder, and this is not one",
                output.display()
            ))
            .with_hint("name a .npy, .safetensors or .png file, or another folder")),
            ("", _) => Ok(Self::Folder),
            ("npy" | "png", n) => {
                let message = format!("{}: one file cannot hold {}", output.display(), count(n as u64, "spectrogram"));
                Err(Error::invalid(message).with_hint("name a .safetensors file, or a folder"))
            }
            _ => Err(Error::invalid(format!("{}: unknown output suffix `.{suffix}`", output.display()))
                .with_hint("name a .npy, .safetensors or .png file, or a folder")),
        }
    }
}

fn inspect(path: &Path, config: &Config) -> Result<Facts> {
    let facts = Source::open(path, Target::new(config.sample_rate))?.facts().clone();
    if facts.n_samples > MAX_SAMPLES {
        return Err(Error::unsupported(format!("{} samples; at most {MAX_SAMPLES} are taken", facts.n_samples))
            .with_hint("`melisma dataset build` cuts long files into segments"));
    }
    Ok(facts)
}

fn spectrogram(transform: &Transform, path: &Path, facts: &Facts) -> Result<Spectrogram> {
    let mut source =
        Source::reopen(path, Target::new(transform.config().sample_rate), facts.n_original, Reads::Direct)?;
    let n = facts.n_samples as usize;
    match facts.element {
        SampleType::I16 => {
            let mut samples = vec![0i16; n];
            source.read_i16(0, &mut samples)?;
            transform.run(&samples)
        }
        SampleType::F32 => {
            let mut samples = vec![0f32; n];
            source.read_f32(0, &mut samples)?;
            transform.run(&samples)
        }
    }
}

fn write_npy(path: &Path, mel: &Spectrogram, existing: Existing) -> Result<()> {
    let mut file = OutputFile::create(path, existing)?;
    let written = file
        .write_all(&npy::header(npy::descr(mel.values.dtype()), &mel.shape))
        .and_then(|()| file.write_all(mel.values.bytes()));
    written.map_err(|error| output::failed(path, error))?;
    file.commit()
}

/// Returns a safetensors file with one tensor per input.
fn tensors(mels: &[Spectrogram], names: Vec<String>) -> Result<Vec<u8>> {
    let tensors = mels.iter().zip(names).map(|(mel, name)| safetensors::Tensor {
        name,
        dtype: mel.values.dtype(),
        shape: mel.shape.to_vec(),
        bytes: mel.values.bytes(),
    });
    safetensors::encode(tensors.collect(), &[])
}

/// Returns the names of results: `mel` for a single one, otherwise the inputs' names, numbered
/// where they repeat.
fn names(inputs: &[PathBuf]) -> Vec<String> {
    if inputs.len() == 1 {
        return vec!["mel".to_owned()];
    }
    let mut names: Vec<String> = Vec::new();
    for path in inputs {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let unique = (1..).map(|n| if n == 1 { stem.clone() } else { format!("{stem}_{n}") });
        names.extend(unique.into_iter().find(|name| !names.contains(name)));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_input_has_a_name_of_its_own() {
        let inputs = ["a/x.wav", "b/x.flac", "y.wav", "x_2.wav"].map(PathBuf::from);
        assert_eq!(names(&inputs), ["x", "x_2", "y", "x_2_2"]);
        assert_eq!(names(&inputs[..1]), ["mel"]);
    }
}
