//! The commands by job, as `melisma --help` lists them.

use clap::Command;

const GROUPS: [(&str, &[&str]); 5] = [
    ("Speech", &["speak", "decode", "encode", "serve"]),
    ("Music", &["synth"]),
    ("Training data", &["mel", "dataset"]),
    ("Models", &["pack", "unpack", "optimize", "run", "cache"]),
    ("This machine and this program", &["demo", "doctor", "bench", "completions", "help"]),
];

/// Returns `command` with its subcommands listed by job in its help.
pub fn grouped(mut command: Command) -> Command {
    // Adds the subcommand `help`.
    command.build();
    let list = list(&command);
    let template = format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{{all-args}}{{after-help}}");
    let usage = command.render_usage().to_string().replacen("Usage: ", "", 1);
    command.mut_subcommands(|subcommand| subcommand.hide(true)).override_usage(usage).help_template(template)
}

fn list(command: &Command) -> String {
    let width = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (group, names) in GROUPS {
        text += &format!("{group}:\n");
        for subcommand in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
            text += &format!("  {:width$}  {about}\n", subcommand.get_name());
        }
        text += "\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn every_command_is_in_one_group() {
        let mut command = Cli::command();
        command.build();
        let owned = |name: &str| name.to_owned();
        let listed: Vec<String> = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| owned(name)).collect();
        let shown = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
        let all: BTreeSet<String> = shown.map(|subcommand| owned(subcommand.get_name())).collect();
        assert_eq!(listed.len(), all.len());
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), all);
    }
}
