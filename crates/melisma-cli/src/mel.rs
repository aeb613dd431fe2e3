//! `melisma mel`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use melisma::audio::{Element, Source};
use melisma::mel::{Config, Spectrogram, Transform, Values, npy, picture};
use melisma::runtime::output;
use melisma::{Error, Result};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

use crate::args::{MelArgs, MelSettings};
use crate::session::Session;

/// The most samples that are held at once: 24 hours at 48 kHz.
const MAX_SAMPLES: u64 = 24 * 3600 * 48_000;

/// The configuration that `settings` ask for.
pub fn config(settings: &MelSettings) -> Result<Config> {
    let mut config = Config::preset(&settings.preset)?;
    settings.set.iter().try_for_each(|assignment| config.set(assignment))?;
    Ok(config)
}

/// One input's result.
struct Done {
    path: String,
    mel: Spectrogram,
    seconds: f64,
    from_hz: u32,
    note: Option<String>,
}

pub fn run(session: &Session, args: &MelArgs) -> Result<()> {
    let _span = tracing::info_span!("mel").entered();
    let suffix = args.output.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
    let is_folder = matches!(suffix, "npy" | "png") && args.inputs.len() > 1 || suffix.is_empty();
    if !is_folder && !matches!(suffix, "npy" | "safetensors" | "png") {
        return Err(Error::invalid(format!("{}: no kind of output has this suffix", args.output.display()))
            .with_hint("name a .npy, .safetensors or .png file, or a folder"));
    }
    if is_folder && !suffix.is_empty() {
        return Err(Error::invalid(format!(
            "{}: one file cannot hold {} spectrograms",
            args.output.display(),
            args.inputs.len()
        ))
        .with_hint("name a .safetensors file, or a folder"));
    }
    let engine = session.engine()?;
    let config = config(&args.mel)?;
    let transform = Transform::new(&engine.device, config.clone())?;
    let mut done = Vec::new();
    for path in &args.inputs {
        let one = spectrogram(&engine.queue, &transform, path).map_err(|error| error.at(path.display()))?;
        if let Some(note) = &one.note {
            session.say(&format!("note: {}: {note}", one.path));
        }
        done.push(one);
    }
    write(session, &args.output, &config, &done)?;
    let file = |one: &Done| {
        json!({
            "path": one.path, "shape": one.mel.shape, "seconds": one.seconds,
            "sample_rate_hz": one.from_hz, "resampled": one.from_hz != config.sample_rate, "note": one.note,
        })
    };
    let files: Vec<Value> = done.iter().map(file).collect();
    let text = || {
        let line = |one: &Done| format!("{} {:?} {:.3} s\n", one.path, one.mel.shape, one.seconds);
        done.iter().map(line).collect::<String>()
    };
    session.print(&engine.device, text, json!({ "files": files, "output": args.output.display().to_string() }))
}

fn spectrogram(queue: &melisma::runtime::device::Queue, transform: &Transform, path: &Path) -> Result<Done> {
    let start = Instant::now();
    let mut source = Source::open(path, transform.config().sample_rate)?;
    let facts = source.facts().clone();
    if facts.n_samples > MAX_SAMPLES {
        return Err(Error::unsupported(format!("{} samples; at most {MAX_SAMPLES} are taken", facts.n_samples))
            .with_hint("`melisma dataset build` cuts long files into segments"));
    }
    let n = facts.n_samples as usize;
    let mel = match facts.element {
        Element::I16 => {
            let mut samples = vec![0i16; n];
            source.read_i16(0, &mut samples)?;
            transform.run(queue, &samples)?
        }
        Element::F32 => {
            let mut samples = vec![0f32; n];
            source.read_f32(0, &mut samples)?;
            transform.run(queue, &samples)?
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    Ok(Done { path: path.display().to_string(), mel, seconds, from_hz: facts.sample_rate, note: facts.note })
}

fn write(session: &Session, output: &Path, config: &Config, done: &[Done]) -> Result<()> {
    match (output.extension().and_then(|suffix| suffix.to_str()), done) {
        (Some("npy"), [one]) => output::write(output, &npy::write(&one.mel), session.existing),
        (Some("png"), [one]) => output::write(output, &picture::write(&one.mel, config), session.existing),
        (Some("safetensors"), _) => output::write(output, &tensors(done)?, session.existing),
        _ => {
            std::fs::create_dir_all(output).map_err(|error| output::failed(output, error))?;
            for (one, name) in done.iter().zip(names(done)) {
                let path: PathBuf = output.join(format!("{name}.npy"));
                output::write(&path, &npy::write(&one.mel), session.existing)?;
            }
            Ok(())
        }
    }
}

/// One tensor per input.
fn tensors(done: &[Done]) -> Result<Vec<u8>> {
    let bytes: Vec<Vec<u8>> = done.iter().map(|one| one.mel.values.bytes()).collect();
    let mut views = Vec::new();
    for ((one, bytes), name) in done.iter().zip(&bytes).zip(names(done)) {
        let dtype = if matches!(one.mel.values, Values::F16(_)) { Dtype::F16 } else { Dtype::F32 };
        let view = TensorView::new(dtype, one.mel.shape.to_vec(), bytes);
        views.push((name, view.map_err(|error| Error::invalid(error.to_string()))?));
    }
    safetensors::serialize(views, None).map_err(|error| Error::invalid(error.to_string()))
}

/// Names of results: `mel` for one, else the inputs' own, numbered where two are the same.
fn names(done: &[Done]) -> Vec<String> {
    if done.len() == 1 {
        return vec!["mel".to_owned()];
    }
    let mut names: Vec<String> = Vec::new();
    for one in done {
        let stem = Path::new(&one.path).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let unique = (1..).map(|n| if n == 1 { stem.clone() } else { format!("{stem}_{n}") });
        names.extend(unique.into_iter().find(|name| !names.contains(name)));
    }
    names
}
