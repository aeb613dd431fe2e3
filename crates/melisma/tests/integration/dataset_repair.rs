//! Damaged rows that are rebuilt from the original audio.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use melisma::audio::{Clip, wav};
use melisma::dataset::store::Store;
use melisma::dataset::{
    Check, Feature, Fields, Inputs, Metadata, Options, Request, StoreKind, Tail, Texts, Tokens, verify,
};
use melisma::mel::Config;
use melisma::runtime::memory::Budget;
use melisma::{ErrorKind, Result};

use crate::dataset_tokens::{corpus, model, sound};

fn tokens(folder: &Path) -> Feature {
    let fields = Fields::new("text").with_kept(vec!["lang".to_owned()]);
    let table = Metadata::open_fields(folder.join("t.csv"), &fields).unwrap();
    Tokens::new(model())
        .with_texts(Texts::Table(Arc::new(table)))
        .with_check(Check::Measure { min_snr_db: None })
        .into()
}

fn mel() -> Feature {
    let mut config = Config::preset("builder").unwrap();
    config.sample_rate = 24_000;
    Options::new(config, Duration::from_millis(500)).unwrap().with_tail(Tail::Pad).into()
}

fn build(files: &Path, output: &Path, feature: Feature, shard: (usize, usize)) {
    let inputs = Inputs::find(&[files]).unwrap();
    Request::new(&inputs, output, feature).unwrap().with_shard(shard.0, shard.1).build().unwrap();
}

fn repair(files: &Path, output: &Path, feature: Feature) -> Result<Vec<u64>> {
    let inputs = Inputs::find(&[files]).unwrap();
    Request::new(&inputs, output, feature).unwrap().with_threads(2).repair().map(|repaired| {
        repaired.verified.check().unwrap();
        repaired.rows
    })
}

/// Changes a byte of a column's entry.
fn damage(output: &Path, name: &str, byte: u64) {
    let store = Store::open(output).unwrap();
    let (_, file, at) = store.places().find(|(column, ..)| column.name == name).unwrap();
    let file = PathBuf::from(file);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[(at + byte) as usize] ^= 0x11;
    std::fs::write(&file, bytes).unwrap();
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let files = corpus(folder.path(), &[30_000, 5000, 2048, 20_000]);
    std::fs::write(files.join("00002b.wav"), b"RIFF no").unwrap();
    // Its row is there, and zero.
    let mut floats = sound(5, 6000);
    floats[5000] = f32::NAN;
    let bad = wav::encode(&Clip::mono(24_000, floats), wav::SampleFormat::F32).unwrap();
    std::fs::write(files.join("x.wav"), bad).unwrap();
    let table = "path,text,lang\n00000.wav,One.,en\n00001.wav,Two.,de\n00002.wav,Three.,fr\n00003.wav,Four.,it\n";
    std::fs::write(folder.path().join("t.csv"), table).unwrap();
    (folder, files)
}

#[test]
fn any_damage_of_rows_is_undone_byte_for_byte() {
    let (folder, files) = folder();
    for name in ["a.safetensors", "a.h5", "shard.safetensors", "mel.h5", "mel.safetensors"] {
        let output = folder.path().join(name);
        let feature = || if name.starts_with("mel") { mel() } else { tokens(folder.path()) };
        build(&files, &output, feature(), if name.starts_with("shard") { (1, 2) } else { (0, 1) });
        let whole = std::fs::read(&output).unwrap();
        assert_eq!(repair(&files, &output, feature()).unwrap(), [0; 0]);
        let store = Store::open(&output).unwrap();
        let columns: Vec<String> = store.layout.columns.iter().map(|column| column.name.clone()).collect();
        let n_rows = store.layout.n_rows;
        for column in columns {
            damage(&output, &column, 1);
            let found = verify(&output, 1, &Budget::unlimited()).unwrap();
            assert!(found.damaged > 0, "{name}: {column}");
            let rows = repair(&files, &output, feature()).unwrap_or_else(|error| panic!("{name}: {column}: {error}"));
            assert!(!rows.is_empty() && (rows.len() as u64) < n_rows, "{name}: {column}: {rows:?}");
            assert!(std::fs::read(&output).unwrap() == whole, "{name}: {column}");
        }
        let beside: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(!beside.iter().any(|name| name.to_str().unwrap().contains("repair")), "{beside:?}");
    }
}

#[test]
fn changed_and_missing_sources_are_refused_and_nothing_is_written() {
    let (folder, files) = folder();
    let output = folder.path().join("a.safetensors");
    build(&files, &output, tokens(folder.path()), (0, 1));
    damage(&output, "codes", 14 * 16);
    let damaged = std::fs::read(&output).unwrap();
    let refused = |word: &str| {
        let error = repair(&files, &output, tokens(folder.path())).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        assert!(std::fs::read(&output).unwrap() == damaged);
        error
    };
    let file = |name: &str| files.join(name);
    let original = std::fs::read(file("00001.wav")).unwrap();
    // The damaged row's own file has another sound of the same length.
    let mut changed = original.clone();
    let n = changed.len();
    changed[n - 2000..].fill(0);
    std::fs::write(file("00001.wav"), &changed).unwrap();
    let error = refused("00001.wav does not give row 1 any more; nothing was written");
    assert_eq!(error.kind(), ErrorKind::Check);
    std::fs::write(file("00001.wav"), &original[..n - 400]).unwrap();
    refused("its rows are not those of these files");
    std::fs::write(file("00001.wav"), &original).unwrap();
    std::fs::rename(file("00003.wav"), folder.path().join("away.wav")).unwrap();
    refused("00003.wav is missing among them");
    std::fs::rename(folder.path().join("away.wav"), file("00003.wav")).unwrap();
    let table = std::fs::read_to_string(folder.path().join("t.csv")).unwrap();
    std::fs::write(folder.path().join("t.csv"), table.replace("Two", "2")).unwrap();
    refused("its text has changed");
    std::fs::write(folder.path().join("t.csv"), table).unwrap();
    let error = repair(&files, &output, Tokens::new(model()).into()).unwrap_err();
    assert!(error.to_string().contains("it was built with other settings: "), "{error}");
    assert!(error.to_string().contains("measured was true, is false"), "{error}");
    assert_eq!(repair(&files, &output, tokens(folder.path())).unwrap(), [1]);
    let config = Store::open(&output).unwrap().layout.text("config").unwrap().to_owned();
    let Feature::Tokens(own) = tokens(folder.path()) else { panic!() };
    damage(&output, "text", 0);
    let like = Tokens::new(model()).with_texts(own.texts).like(&config).unwrap();
    assert_eq!(repair(&files, &output, like.into()).unwrap(), [0]);
    assert!(Tokens::new(model()).like("{}").is_err() && Options::parse(&config).is_err());
}

#[test]
fn a_header_that_is_damaged_and_lines_cannot_be_repaired() {
    let (folder, files) = folder();
    let output = folder.path().join("a");
    let inputs = Inputs::find(&[&files]).unwrap();
    let request = || Request::new(&inputs, &output, tokens(folder.path())).unwrap().with_store(StoreKind::Npy);
    request().build().unwrap();
    damage(&output, "lang", 0);
    damage(&output, "snr_db", 5);
    let index = output.join("dataset.json");
    let text = std::fs::read_to_string(&index).unwrap();
    std::fs::write(&index, text.replace("\"version\": 2", "\"version\": 3")).unwrap();
    let error = request().repair().unwrap_err();
    assert!(error.to_string().contains("another header"), "{error}");
    std::fs::write(&index, text).unwrap();
    assert_eq!(request().repair().unwrap().rows, [0, 1]);
    let lines = folder.path().join("a.jsonl");
    let error = Request::new(&inputs, lines, tokens(folder.path())).unwrap().repair().unwrap_err();
    assert!(error.to_string().contains("lines have no hash"), "{error}");
}

#[test]
fn a_row_that_failed_is_zero_again() {
    let (folder, files) = folder();
    let output = folder.path().join("a.safetensors");
    build(&files, &output, tokens(folder.path()), (0, 1));
    let whole = std::fs::read(&output).unwrap();
    let store = Store::open(&output).unwrap();
    let codes = &store.layout.columns[store.layout.column("codes").unwrap()];
    damage(&output, "codes", 14 * store.layout.len(codes) - 1);
    assert_eq!(repair(&files, &output, tokens(folder.path())).unwrap(), [4]);
    assert!(std::fs::read(&output).unwrap() == whole);
}
