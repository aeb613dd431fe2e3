//! Columns of a table that become columns of a corpus, and speakers before texts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use melisma::Existing;
use melisma::dataset::store::Store;
use melisma::dataset::{
    Fields, Inputs, Lines, Merge, Metadata, Outcome, Request, StoreKind, Texts, Tokens, merge, verify,
};
use melisma::runtime::memory::Budget;
use serde_json::{Value, json};

use crate::dataset_tokens::{corpus, model};

const TABLE: &str = "path,sentence,lang,who\n00000.wav,Hello.,en,tara\n00001.wav,\"Grüß, Gott.\",de,leo\n\
                     00002.wav,Ciao.,,\n";

fn fields() -> Fields {
    Fields::new("sentence").with_kept(vec!["lang".to_owned()]).with_speaker(Some("who".to_owned()))
}

fn encode(files: &Path, (table, fields): (&Path, &Fields), output: &Path, shard: (usize, usize)) -> Outcome {
    let inputs = Inputs::find(&[files]).unwrap();
    let table = Metadata::open_fields(table, fields).unwrap();
    let tokens = Tokens::new(model()).with_texts(Texts::Table(Arc::new(table)));
    let mut request = Request::new(&inputs, output, tokens).unwrap().with_shard(shard.0, shard.1);
    if Lines::is_name(output) {
        request = request.with_store(StoreKind::Safetensors).with_lines(Lines::default());
    }
    request.build().unwrap()
}

/// Returns the texts of a column.
fn cells(path: &Path, name: &str) -> Vec<String> {
    let store = Store::open(path).unwrap();
    let read = |name: &str| {
        let column = store.layout.column(name).unwrap();
        let described = &store.layout.columns[column];
        let mut bytes = vec![0; store.layout.len(described) as usize * described.row_bytes()];
        store.read(column, 0, &mut bytes).unwrap();
        bytes
    };
    let (bytes, offsets) = (read(name), read(&format!("{name}_offsets")));
    let offsets: Vec<usize> = offsets.as_chunks().0.iter().map(|&at| u64::from_le_bytes(at) as usize).collect();
    offsets.windows(2).map(|at| String::from_utf8(bytes[at[0]..at[1]].to_vec()).unwrap()).collect()
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn whole(path: &Path) {
    verify(path, 1, &Budget::unlimited()).unwrap().check().unwrap();
}

/// Returns the bytes of a dataset, of every file if it is a folder.
fn bytes(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = match path.is_dir() {
        true => std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect(),
        false => vec![path.to_owned()],
    };
    files.sort();
    files.into_iter().map(|file| (file.strip_prefix(path).unwrap().to_owned(), std::fs::read(&file).unwrap())).collect()
}

#[test]
fn columns_of_a_table_are_kept_in_every_form_and_through_shards() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // The last file has no row in the table.
    let files = corpus(folder.path(), &[5000, 3000, 9000, 2048]);
    std::fs::write(at("t.csv"), TABLE).unwrap();
    for (name, kind) in
        [("all.safetensors", StoreKind::Safetensors), ("all.h5", StoreKind::Hdf5), ("all", StoreKind::Npy)]
    {
        let outcome = encode(&files, (&at("t.csv"), &fields()), &at(name), (0, 1));
        assert_eq!((outcome.segments, outcome.without_text), (4, 1));
        whole(&at(name));
        assert_eq!(cells(&at(name), "source"), ["tara", "leo", "", ""], "{name}");
        assert_eq!(cells(&at(name), "lang"), ["en", "de", "", ""]);
        assert_eq!(cells(&at(name), "text"), ["tara: Hello.", "leo: Grüß, Gott.", "Ciao.", ""]);
        // Again: nothing is left to do.
        assert_eq!(encode(&files, (&at("t.csv"), &fields()), &at(name), (0, 1)).resumed_segments, 4);
        let parts: Vec<PathBuf> = (0..3).map(|i| at(&format!("part-{i}-{name}"))).collect();
        for (index, part) in parts.iter().enumerate() {
            encode(&files, (&at("t.csv"), &fields()), part, (index, 3));
        }
        let (merged, budget) = (at(&format!("merged-{name}")), Budget::unlimited());
        merge(&Merge::new(&parts, &merged, kind, &budget)).unwrap();
        assert!(bytes(&merged) == bytes(&at(name)), "{name}");
        let joined = at(&format!("merged-{name}.jsonl"));
        merge(&Merge::new(&parts, &joined, StoreKind::Safetensors, &budget)).unwrap();
        assert_eq!(lines(&joined)[1]["source"], "leo");
        // A folder with columns of a table is replaced as any other.
        let inputs = Inputs::find(&[&files]).unwrap();
        let again = Request::new(&inputs, at(name), Tokens::new(model())).unwrap().with_existing(Existing::Replace);
        again.with_store(kind).build().unwrap();
        assert!(Store::open(at(name)).unwrap().layout.column("lang").is_err());
    }
    encode(&files, (&at("t.csv"), &fields()), &at("all.jsonl"), (0, 1));
    let rows = lines(&at("all.jsonl"));
    assert_eq!(
        (&rows[0]["text"], &rows[0]["source"], &rows[0]["lang"]),
        (&json!("tara: Hello."), &json!("tara"), &json!("en"))
    );
    assert_eq!((rows[3].get("text"), &rows[3]["lang"]), (None, &json!("")));
    assert_eq!(std::fs::read(at("all.jsonl")).unwrap(), std::fs::read(at("merged-all.h5.jsonl")).unwrap());
    whole(&at("all.jsonl"));
}

#[test]
fn another_value_is_another_plan_and_damage_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let files = corpus(folder.path(), &[2048, 2048, 2048]);
    std::fs::write(at("t.csv"), TABLE).unwrap();
    encode(&files, (&at("t.csv"), &fields()), &at("a.safetensors"), (0, 1));
    let inputs = Inputs::find(&[&files]).unwrap();
    let again = |table: &str, fields: &Fields| {
        std::fs::write(at("t.csv"), table).unwrap();
        let table = Metadata::open_fields(at("t.csv"), fields).unwrap();
        let tokens = Tokens::new(model()).with_texts(Texts::Table(Arc::new(table)));
        Request::new(&inputs, at("a.safetensors"), tokens).unwrap().build().map(|outcome| outcome.resumed_segments)
    };
    assert_eq!(again(TABLE, &fields()).unwrap(), 3);
    for (table, fields) in [
        (TABLE.replace(",de,", ",at,"), fields()),
        (TABLE.to_owned(), fields().with_kept(Vec::new())),
        (TABLE.to_owned(), fields().with_speaker(None)),
    ] {
        assert!(again(&table, &fields).unwrap_err().to_string().contains("not of this plan"));
    }
    let store = Store::open(at("a.safetensors")).unwrap();
    let (_, _, place) = store.places().find(|(column, ..)| column.name == "lang").unwrap();
    let mut bytes = std::fs::read(at("a.safetensors")).unwrap();
    bytes[place as usize + 2] ^= 1;
    std::fs::write(at("a.safetensors"), bytes).unwrap();
    let found = verify(at("a.safetensors"), 1, &Budget::unlimited()).unwrap();
    assert_eq!((found.damaged, &found.first_files[..]), (1, &["00001.wav".to_owned()][..]));
}

#[test]
fn tables_of_json_lines_have_keys_for_columns() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let files = corpus(folder.path(), &[2048, 2048, 2048]);
    let rows = [
        r#"{"path": "00000.wav", "sentence": " Hello. ", "age": 41, "who": "tara"}"#,
        r#"{"who": null, "path": "w/00001.wav", "sentence": "Bye.", "age": true}"#,
        r#"{"path": "00002.wav", "sentence": "Ciao.", "who": "leo"}"#,
        r#"{"path": "00002.wav", "sentence": ["x"], "age": 1, "who": "leo"}"#,
    ];
    std::fs::write(at("t.jsonl"), rows.join("\n")).unwrap();
    let fields = fields().with_kept(vec!["age".to_owned()]);
    let outcome = encode(&files, (&at("t.jsonl"), &fields), &at("a.safetensors"), (0, 1));
    assert_eq!(cells(&at("a.safetensors"), "text"), ["tara: Hello.", "Bye.", ""]);
    assert_eq!(cells(&at("a.safetensors"), "age"), ["41", "true", ""]);
    let messages: Vec<&str> = outcome.failures.iter().map(|failure| failure.message.as_str()).collect();
    assert_eq!(messages[..2], ["no key `age`", "`sentence` is neither a text nor a number"]);
}

#[test]
fn a_column_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("t.csv"), TABLE).unwrap();
    let refused = |table: &str, fields: &Fields| {
        let error = Metadata::open_fields(at(table), fields).unwrap_err();
        format!("{error} ({})", error.hint().unwrap_or_default())
    };
    let absent = refused("t.csv", &fields().with_kept(vec!["language".to_owned()]));
    assert!(absent.contains("no column `language` in its first line"), "{absent}");
    assert!(absent.contains("path, sentence, lang, who"), "{absent}");
    let absent = refused("t.csv", &fields().with_speaker(Some("speaker".to_owned())));
    assert!(absent.contains("no column `speaker`"), "{absent}");
    let own = refused("t.csv", &fields().with_kept(vec!["path".to_owned()]));
    assert!(own.contains("a column of its own"), "{own}");
    // Rows with too few columns are listed as those without a text are.
    std::fs::write(at("short.csv"), "path,sentence,lang\na,one,en\nb,two\n").unwrap();
    let table = Metadata::open_fields(at("short.csv"), &Fields::new("2").with_kept(vec!["lang".to_owned()])).unwrap();
    assert_eq!(table.text("a.wav").unwrap(), "one");
    assert!(table.text("b.wav").is_err());
    std::fs::write(at("t.jsonl"), "{\"path\": \"a\", \"sentence\": \"x\", \"who\": \"y\"}\n").unwrap();
    let absent = refused("t.jsonl", &fields());
    assert!(absent.contains("no row can be used") && absent.contains("no key `lang`"), "{absent}");
}
