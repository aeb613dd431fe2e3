//! Remedies as commands and flags.

use std::io::ErrorKind;

use melisma::text::size;
use melisma::{Error, Remedy};

/// Returns how to fix `error` on the command line.
pub fn hint(error: &Error) -> Option<String> {
    let of_error = error.hint_in(|remedy| words(&remedy.into()));
    of_error.or_else(|| match error.io_source()?.kind() {
        ErrorKind::PermissionDenied => Some("check that you may read it: `ls -l` shows who may".to_owned()),
        _ => None,
    })
}

fn words(remedy: &Remedy) -> String {
    let one_of = |names: &[String]| Remedy::alternatives(names);
    let fixed = match remedy {
        Remedy::Words(words) => words,
        Remedy::RaiseMemoryLimit { least: Some(bytes) } => {
            return format!("use --memory-limit {} or more", size::exact(*bytes));
        }
        Remedy::UseDevice(names) => return format!("use --device {}", one_of(names)),
        Remedy::UseEngine(Some(name)) => return format!("use --engine {name}"),
        Remedy::UsePrecision(names) => return format!("use --precision {}", one_of(names)),
        Remedy::UseProfile(name) => return format!("use --profile {name}"),
        Remedy::Set { key, value } => return format!("set {key}: {value}"),
        Remedy::NameInputShape(name) => return format!("name it: --input {name}=SHAPE"),
        Remedy::OptimizeFirst { engine } => return format!("make one with `melisma optimize --engine {engine}`"),
        Remedy::SetMel { key, value } => return format!("use `--set {key}={value}`"),
        Remedy::ChangeMel(keys) => {
            let flags: Vec<String> = keys.iter().map(|key| format!("--set {key}=...")).collect();
            return format!("change {} with `{}`", if keys.len() == 1 { "it" } else { "them" }, flags.join(" "));
        }
        Remedy::UseStore(kinds) => return format!("use --store {}", one_of(kinds)),
        Remedy::UseRowType(dtype) => return format!("use --dtype {dtype}"),
        Remedy::RaiseMemoryLimit { least: None } => "raise --memory-limit",
        Remedy::LowerMemoryLimit => "lower --memory-limit so that the work is split",
        Remedy::UseEngine(None) => "choose another one with --engine",
        Remedy::RaiseTolerance => "raise --tolerance",
        Remedy::CheckConfigFile => "check --config or MELISMA_CONFIG, or leave it out to use the default file or none",
        Remedy::Replace => "use -f to replace it",
        Remedy::StartOver => "use -f to build it again from the start",
        Remedy::RepairRows => {
            "`melisma dataset verify --repair --from DIR` makes these rows again from the audio in DIR"
        }
        Remedy::GiveInputValues => "give the inputs their real values, which the model may need: --input NAME=FILE.npy",
        Remedy::ExplainMel => "`melisma mel --list` explains all presets and keys",
        Remedy::ShowDevices => "`melisma doctor` shows what was found",
        Remedy::Pack => "`melisma pack` packs it",
        Remedy::Unpack => "unpack it first with `melisma unpack`",
        Remedy::GiveBase => "give the base file with --delta",
        Remedy::PackWhole => "pack it whole, without --delta",
        Remedy::UnpackTensors => "`unpack --tensor` still reads the tensors whose tiles are whole",
        Remedy::ListTensors => "`melisma pack -l` lists them",
        Remedy::BuildDataset => "`melisma dataset build` reads folders",
        Remedy::ResumeBuild => "run the same command again: it resumes where it stopped",
        Remedy::SkipFailures => "use `--on-error skip` to list files that fail and go on",
        Remedy::UseShards => "build it in parts with --shard",
        Remedy::GiveKey => "give a key with --api-key-file or MELISMA_API_KEY",
        Remedy::NameCodec => "name the codec that it was trained with: --model DIR",
        Remedy::AllowMissing => "use --allow-missing to merge without their rows",
        Remedy::NamePathColumn => "name the column with the names of the audio files with --path-column",
    };
    fixed.to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    fn flags(command: &clap::Command, found: &mut BTreeSet<String>) {
        for arg in command.get_arguments() {
            found.extend(arg.get_long().map(|long| format!("--{long}")));
            found.extend(arg.get_short().map(|short| format!("-{short}")));
        }
        command.get_subcommands().for_each(|command| flags(command, found));
    }

    #[test]
    fn every_flag_that_is_named_exists() {
        let mut known = BTreeSet::new();
        flags(&Cli::command(), &mut known);
        for remedy in Remedy::examples() {
            let text = words(&remedy);
            let named: Vec<&str> =
                text.split([' ', '`', ',', ':']).filter(|word| word.starts_with('-') && word.len() > 1).collect();
            let has_flag = !matches!(
                remedy,
                Remedy::Words(_)
                    | Remedy::Set { .. }
                    | Remedy::ShowDevices
                    | Remedy::Pack
                    | Remedy::Unpack
                    | Remedy::BuildDataset
                    | Remedy::ResumeBuild
            );
            assert_eq!(!named.is_empty(), has_flag, "{text}");
            assert!(named.iter().all(|flag| known.contains(*flag)), "{text}");
        }
    }

    #[test]
    fn remedies_read_as_commands() {
        let error = Error::invalid("x").with_hint(Remedy::RaiseMemoryLimit { least: Some(5 << 30) }).or_hint("wait");
        assert_eq!(hint(&error).unwrap(), "use --memory-limit 5GiB or more, or wait");
        let error = Error::invalid("x").with_hint(Remedy::change_mel(&["f_min", "f_max"])).or_hint(Remedy::ExplainMel);
        let text =
            "change them with `--set f_min=... --set f_max=...`; `melisma mel --list` explains all presets and keys";
        assert_eq!(hint(&error).unwrap(), text);
    }
}
