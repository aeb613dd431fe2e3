//! The packages of the peers, and how to install one that is missing.

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

/// Returns why a peer is left out, with the command that installs its package if that is missing.
/// `reason` is the last line that Python printed.
pub fn reason(reason: &str) -> String {
    let module = reason.split_once("No module named '").and_then(|(_, rest)| rest.split_once('\''));
    let Some(module) = module.and_then(|(name, _)| name.split('.').next()) else { return reason.to_owned() };
    match PACKAGES.iter().find(|package| package.module == module) {
        Some(Package { package, .. }) => format!("{module} is not installed: pip install {package}"),
        None => format!("{module} is not installed"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_missing_module_names_its_package() {
        let missing = |name: &str| reason(&format!("ModuleNotFoundError: No module named '{name}'"));
        assert_eq!(missing("yaml"), "yaml is not installed: pip install pyyaml");
        assert_eq!(missing("lz4.frame"), "lz4 is not installed: pip install lz4");
        assert_eq!(missing("unknown_module"), "unknown_module is not installed");
        assert_eq!(reason("MemoryError"), "MemoryError");
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
