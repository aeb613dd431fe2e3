//! The packages and programs of the peers, and how to install one that is missing.

/// A package of a peer.
pub struct Package {
    /// The name of the module.
    pub module: &'static str,
    /// The name of the package.
    pub package: &'static str,
}

const fn package(module: &'static str, package: &'static str) -> Package {
    Package { module, package }
}

/// All packages that the scripts of the peers import.
pub const PACKAGES: [Package; 17] = [
    package("flashmel", "flashmel"),
    package("h5py", "h5py"),
    package("librosa", "librosa"),
    package("lz4", "lz4"),
    package("melisma", "./crates/melisma-py"),
    package("numpy", "numpy"),
    package("nvidia", "nvidia-nvcomp-cu13"),
    package("onnxruntime", "onnxruntime"),
    package("snac", "snac"),
    package("soundfile", "soundfile"),
    package("tokenizers", "tokenizers"),
    package("torch", "torch"),
    package("torchaudio", "torchaudio"),
    package("transformers", "transformers"),
    package("yaml", "pyyaml"),
    package("zipnn", "zipnn"),
    package("zstandard", "zstandard"),
];

/// Programs of peers, and the Debian packages that have them.
const PROGRAMS: [(&str, &str); 2] = [("fluidsynth", "fluidsynth"), ("opusdec", "opus-tools")];

/// Returns what is not installed, with the command that installs it. `reason` is the last line that Python printed;
/// `None` if it does not say that something is missing.
pub fn missing(reason: &str) -> Option<String> {
    let named = |before: &str| Some(reason.split_once(before)?.1.split_once('\'')?.0);
    if let Some(program) = named("No program named '") {
        let package = PROGRAMS.iter().find(|(known, _)| *known == program);
        return Some(installed_by(program, package.map(|(_, package)| format!("apt install {package}"))));
    }
    let module = named("No module named '")?.split('.').next()?;
    let package = PACKAGES.iter().find(|package| package.module == module);
    Some(installed_by(module, package.map(|Package { package, .. }| format!("pip install {package}"))))
}

fn installed_by(name: &str, command: Option<String>) -> String {
    let command = command.map(|command| format!(": {command}")).unwrap_or_default();
    format!("{name} is not installed{command}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_missing_module_names_its_package() {
        let without = |name: &str| missing(&format!("ModuleNotFoundError: No module named '{name}'")).unwrap();
        assert_eq!(without("yaml"), "yaml is not installed: pip install pyyaml");
        assert_eq!(without("lz4.frame"), "lz4 is not installed: pip install lz4");
        assert_eq!(without("unknown_module"), "unknown_module is not installed");
        assert_eq!(missing("MemoryError"), None);
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let without = |name: &str| missing(&format!("No program named '{name}'")).unwrap();
        assert_eq!(without("fluidsynth"), "fluidsynth is not installed: apt install fluidsynth");
        assert_eq!(without("unknown"), "unknown is not installed");
    }

    /// Reads what the scripts say about programs, so that a new one is added here and to the page of peers.
    #[test]
    fn every_program_of_the_scripts_is_known_and_on_the_page() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/peers.md");
        let page = std::fs::read_to_string(page).unwrap();
        let mut found = BTreeSet::new();
        for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/peers")).unwrap() {
            let script = std::fs::read_to_string(file.unwrap().path()).unwrap();
            found.extend(
                script.split("No program named '").skip(1).map(|rest| rest.split('\'').next().unwrap().to_owned()),
            );
        }
        let known: BTreeSet<String> = PROGRAMS.iter().map(|(program, _)| (*program).to_owned()).collect();
        assert_eq!(found, known);
        for (program, package) in PROGRAMS {
            assert!(page.contains(&format!("`{program}`")) && page.contains(package), "{program} is not on the page");
        }
    }

    /// Reads the imports of the scripts, so that a new peer is added here and to the page of peers.
    #[test]
    fn every_import_of_the_scripts_is_known_and_on_the_page() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/peers.md");
        let page = std::fs::read_to_string(page).unwrap();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");
        let own = "collections concurrent glob io itertools json math os pickle re resource shutil statistics struct \
            subprocess sys tempfile time wave zipfile";
        let mut found = BTreeSet::new();
        for file in std::fs::read_dir(folder).unwrap() {
            for line in std::fs::read_to_string(file.unwrap().path()).unwrap().lines() {
                let mut words = line.split_whitespace();
                if let (Some("import" | "from"), Some(module)) = (words.next(), words.next()) {
                    found.insert(module.split('.').next().unwrap().to_owned());
                }
            }
        }
        for module in found.iter().filter(|module| !own.split_whitespace().any(|own| own == module.as_str())) {
            let package = PACKAGES.iter().find(|package| package.module == module);
            let package = package.unwrap_or_else(|| panic!("`{module}` is not in PACKAGES"));
            assert!(page.contains(&format!("`{}`", package.package)), "{} is not on the page", package.package);
        }
    }
}
