use std::path::{Path, PathBuf};

/// Public names that no caller of the library can reach, or whose numbers cannot be wrong.
const EXEMPT: [(&str, &str); 24] = [
    ("dataset/build/", "its numbers are those of a plan"),
    ("dataset/mel/rehearsal.rs", "private, except for `rehearse`"),
    ("dataset/store/layout.rs", "columns of a store, checked by the stores' own tests"),
    ("dataset/store/mod.rs", "columns of a store that was opened, checked by the stores' own tests"),
    ("engine/need/", "private, except for what the search uses"),
    ("engine/ours/", "`with_step` takes at least 1"),
    ("engine/chunked.rs", "private"),
    ("llama/", "hidden; its numbers are those of a model's files, which are checked, and of `speak`"),
    ("mel/picture/font.rs", "its numbers are those of pixels that it hands out"),
    ("onnx/synthetic/whisper.rs", "any seed works"),
    ("runtime/thread.rs", "starts as many threads as the system allows"),
    ("trace/histogram.rs", "private"),
    ("format/checkpoint/", "reads of a checkpoint that was opened"),
    ("format/pickle/", "private; fuzzed"),
    ("onnx/read/", "private; fuzzed"),
    ("onnx/shape/", "private"),
    ("pack/layout.rs", "entries of a header that was parsed"),
    ("snac/reference/conv.rs", "private"),
    ("snac/reference/plane.rs", "an array: indexing outside of it panics, as documented"),
    ("snac/reference/quantizer.rs", "planes of its model"),
    ("snac/tokens/", "private, except for `Reader`, which is fuzzed"),
    ("snac/weights.rs", "tensors of a checkpoint that was opened"),
    ("speak/list/job.rs", "any seed works"),
    ("tensor/lower.rs", "private"),
];
/// Arguments of these types are numbers.
const NUMBERS: [&str; 13] =
    ["u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize", "f32", "f64", "Duration"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|suffix| suffix == "rs") {
            found.push(path);
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Functions with a number among their arguments, in code before the tests.
fn functions(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap();
    let mut found = Vec::new();
    // Setters of the macro are indented once more.
    let code = code.replace("\n        pub fn ", "\n    pub fn ");
    for part in code.split("\n    pub fn ").flat_map(|part| part.split("\npub fn ")).skip(1) {
        let Some((name, rest)) = part.split_once('(') else { continue };
        let arguments = rest.split_once("->").map_or(rest, |(arguments, _)| arguments);
        let arguments = arguments.split_once(['{', ';']).map_or(arguments, |(arguments, _)| arguments);
        // Slices of bytes and samples are content, not sizes.
        let arguments = arguments.replace("&[u8]", "").replace("&mut [u8]", "");
        if words(&arguments).any(|word| NUMBERS.contains(&word)) {
            found.push(words(name).next().unwrap().to_owned());
        }
    }
    found
}

#[test]
fn every_function_with_a_number_is_called() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut files, mut tests) = (Vec::new(), vec![root.join("tests/integration/bad_arguments.rs")]);
    sources(&root.join("src"), &mut files);
    sources(&root.join("tests/every_argument"), &mut tests);
    let tests: String = tests.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let (mut n, mut missing) = (0, Vec::new());
    for path in files {
        let place = path.strip_prefix(root.join("src")).unwrap().display().to_string();
        let is_exempt = EXEMPT.iter().any(|(prefix, _)| place.starts_with(prefix)) || place.contains("tests");
        let text = std::fs::read_to_string(&path).unwrap();
        for name in functions(&text).into_iter().filter(|_| !is_exempt) {
            n += 1;
            if !words(&tests).any(|word| word == name) {
                missing.push(format!("{place}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "give these edge values in tests/every_argument: {missing:#?}");
    assert!(n > 100, "{n}");
}
