//! Remedies in terms of Python arguments.

use melisma::text::size;
use melisma::{Error, Remedy};

/// How to fix `error` in Python.
pub fn hint(error: &Error) -> Option<String> {
    error.hint_in(words)
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
            format!("set the device to {}, as in config={{\"device\": \"cpu\"}}", quoted(names))
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
        // The package has no arguments for these.
        Remedy::Words(_)
        | Remedy::Replace
        | Remedy::StartOver
        | Remedy::SetMel { .. }
        | Remedy::ChangeMel(_)
        | Remedy::ExplainMel
        | Remedy::ShowDevices
        | Remedy::Pack
        | Remedy::Unpack
        | Remedy::GiveBase
        | Remedy::PackWhole
        | Remedy::UnpackTensors
        | Remedy::ListTensors
        | Remedy::BuildDataset
        | Remedy::ResumeBuild
        | Remedy::SkipFailures
        | Remedy::UseShards
        | Remedy::AllowMissing
        | Remedy::UseStore(_)
        | Remedy::UseRowType(_) => remedy.to_string(),
    }
}

/// Formats a value of the configuration file as a Python literal.
fn literal(value: &str) -> String {
    match value {
        "true" => "True".to_owned(),
        "false" => "False".to_owned(),
        text => format!("\"{text}\""),
    }
}
