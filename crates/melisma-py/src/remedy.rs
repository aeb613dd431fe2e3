//! Remedies in terms of Python arguments.

use melisma::text::size;
use melisma::{Error, Remedy};

/// Returns how to fix `error` in Python.
pub fn hint(error: &Error) -> Option<String> {
    error.hint_in(|remedy| words(&remedy.into()))
}

fn words(remedy: &Remedy) -> String {
    let quoted =
        |names: &[String]| Remedy::alternatives(&names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>());
    match remedy {
        Remedy::RaiseMemoryLimit { least: None } => "raise memory_limit".to_owned(),
        Remedy::RaiseMemoryLimit { least: Some(bytes) } => {
            format!("use memory_limit=\"{}\" or more", size::exact(*bytes))
        }
        Remedy::LowerMemoryLimit => "lower memory_limit so that the work is split".to_owned(),
        Remedy::UseDevice(names) => {
            format!("use the device {}: the argument `device`, or `device` in `config`", quoted(names))
        }
        Remedy::UseEngine(Some(name)) => format!("use engine=\"{name}\""),
        Remedy::UseEngine(None) => "choose another engine=".to_owned(),
        Remedy::UsePrecision(names) => format!("use precision={}", quoted(names)),
        Remedy::RaiseTolerance => "raise tolerance".to_owned(),
        Remedy::UseProfile(name) => format!("use profile=\"{name}\""),
        Remedy::Set { key, value } => format!("use config={{\"{key}\": {}}}", literal(value)),
        Remedy::CheckConfigFile => {
            "check config or MELISMA_CONFIG, or leave it out to use the default file or none".into()
        }
        Remedy::NameInputShape(name) => format!("give its shape in inputs, as in {{\"{name}\": (1, 80, 3000)}}"),
        Remedy::GiveInputValues => "give real values with calibrate: the model may need them".to_owned(),
        Remedy::OptimizeFirst { engine } => format!("make one with optimize(..., engine=\"{engine}\")"),
        Remedy::Replace => "use overwrite=True to replace it".to_owned(),
        Remedy::StartOver => "use overwrite=True to build it again from the start".to_owned(),
        Remedy::RepairRows => {
            "use repair=True, and the inputs that it was built from, to make these rows again".to_owned()
        }
        Remedy::SetMel { key, value } => format!("use {key}={}", literal(value)),
        Remedy::ChangeMel(keys) => format!("change {}", keys.join(" or ")),
        Remedy::ExplainMel => "melisma.mel.presets() and melisma.mel.keys() explain them".to_owned(),
        Remedy::Pack => "melisma.pack.save_file packs it".to_owned(),
        Remedy::Unpack => "melisma.pack.load_file reads it".to_owned(),
        Remedy::GiveBase => "give the file that it was made against as base".to_owned(),
        Remedy::PackWhole => "leave base out to pack it whole".to_owned(),
        Remedy::UnpackTensors => "melisma.pack.safe_open still reads the tensors whose tiles are whole".to_owned(),
        Remedy::ListTensors => "melisma.pack.safe_open(path).keys() lists them".to_owned(),
        Remedy::BuildDataset => "melisma.dataset.build reads folders".to_owned(),
        Remedy::ResumeBuild => "make the same call again: it resumes where it stopped".to_owned(),
        Remedy::SkipFailures => "use on_error=\"skip\" to list files that fail and go on".to_owned(),
        Remedy::UseShards => "build it in parts, with shard=(1, N) to (N, N)".to_owned(),
        Remedy::UseStore(kinds) => format!("use store={}", quoted(kinds)),
        Remedy::UseRowType(dtype) => format!("use dtype=\"{dtype}\""),
        Remedy::GiveKey => "give api_key".to_owned(),
        Remedy::NamePathColumn => "name the column with the names of the audio files: path_column".to_owned(),
        Remedy::NameCodec => "give the codec that it was trained with: model=\"snac_24khz/\"".to_owned(),
        // The package has no arguments for these.
        Remedy::Words(_) | Remedy::ShowDevices | Remedy::AllowMissing => remedy.to_string(),
    }
}

/// Formats a value of the configuration file as a Python literal.
fn literal(value: &str) -> String {
    match value {
        "true" => "True".to_owned(),
        "false" => "False".to_owned(),
        "none" => "None".to_owned(),
        number if number.parse::<f64>().is_ok() => number.to_owned(),
        text => format!("\"{text}\""),
    }
}
