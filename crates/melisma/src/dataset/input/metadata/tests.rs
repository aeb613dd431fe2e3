use super::*;

fn table(content: &[u8], name: &str, text: &str) -> (tempfile::TempDir, Result<Metadata>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    let table = Metadata::open(&path, text, None);
    (folder, table)
}

fn text(table: &Metadata, name: &str) -> String {
    table.text(name).unwrap()
}

#[test]
fn ljspeech_has_bars_and_no_header() {
    let content = "LJ001-0001|Printing, \"in\" 1|Printing, \"in\" one\nLJ001-0002|a|b\n";
    let (_folder, found) = table(content.as_bytes(), "metadata.csv", "3");
    let found = found.unwrap();
    assert_eq!(text(&found, "wavs/LJ001-0001.wav"), "Printing, \"in\" one");
    assert_eq!(text(&found, "LJ001-0002.flac"), "b");
    assert!(found.text("LJ001-0003.wav").is_err());
}

#[test]
fn tables_with_names_have_a_path_column() {
    let content = "client_id\tpath\tsentence\r\nx\tcommon_1.mp3\tHello \"you\r\nx\tcommon_2.mp3\tBye\r\n";
    let (_folder, found) = table(content.as_bytes(), "train.tsv", "sentence");
    let found = found.unwrap();
    assert_eq!(text(&found, "clips/common_1.mp3"), "Hello \"you");
    assert_eq!(text(&found, "common_2.mp3"), "Bye");
    let (_folder, missing) = table(content.as_bytes(), "train.tsv", "text");
    assert!(missing.unwrap_err().to_string().ends_with("no column `text` in its first line"));
}

#[test]
fn commas_are_quoted_as_in_rfc_4180() {
    let content = "\u{feff}path,text\na.wav,\"one, \"\"two\"\"\nthree\"\nb/c.wav,four\n";
    let (_folder, found) = table(content.as_bytes(), "t.csv", "text");
    let found = found.unwrap();
    assert_eq!(text(&found, "a.wav"), "one, \"two\"\nthree");
    assert_eq!(text(&found, "b/c.wav"), "four");
}

#[test]
fn faulty_rows_are_named_and_the_others_stay() {
    let mut content = b"a|one\nb\nc|bad \xff\n|none\nd|four\na|again\ne|\"open, no quoting here\n".to_vec();
    content.extend([&b"f|"[..], &[b'x'; 70_000], b"\ng|seven"].concat());
    let (folder, found) = table(&content, "metadata.csv", "2");
    let found = found.unwrap();
    assert_eq!((text(&found, "d.wav"), text(&found, "g.wav")), ("four".to_owned(), "seven".to_owned()));
    assert_eq!(text(&found, "a.wav"), "one");
    let input = |name: &str| Input::new(name.as_ref(), PathBuf::from(name));
    let files = ["a.wav", "d.wav", "e.wav"].into_iter().map(input).collect();
    let listed = found.without_file(&Inputs { files, ..Inputs::default() }).unwrap();
    let place = |line: u32| format!("{}:{line}", folder.path().join("metadata.csv").display());
    let lines: Vec<&str> = listed.iter().map(|failure| failure.path.as_str()).collect();
    assert_eq!(lines, [2, 3, 4, 6, 8, 9].map(place));
    for (failure, word) in listed.iter().zip(["1 column;", "UTF-8", "no path", "line 1", "65536", "no audio file"]) {
        assert!(failure.message.contains(word), "{failure:?}");
    }
}

#[test]
fn folders_of_a_table_may_begin_above_the_input() {
    let content = "w/001.wav|one\nv/001.wav|another\n001|any\n/abs/w/002.wav|two\n./x/003|three\n";
    let (_folder, found) = table(content.as_bytes(), "metadata.csv", "2");
    let found = found.unwrap();
    for (path, expected) in [
        ("w/001.wav", "one"),
        ("/data/w/001.flac", "one"),
        ("/data/v/001.wav", "another"),
        ("/data/u/001.wav", "any"),
        ("001.wav", "any"),
        ("/abs/w/002.wav", "two"),
        ("/data/x/003.wav", "three"),
    ] {
        assert_eq!(text(&found, path), expected, "{path}");
    }
    assert!(found.text("/else/w/002.wav").is_err());
    let here = std::env::current_dir().unwrap();
    let name = here.file_name().unwrap().to_str().unwrap();
    let (_folder, found) = table(format!("{name}/001.wav|here").as_bytes(), "metadata.csv", "2");
    let input = Input::new("001.wav".as_ref(), PathBuf::from("./001.wav"));
    assert_eq!(found.unwrap().find(&input).unwrap()[0].len, 4);
}

#[test]
fn a_row_that_names_another_file_is_not_that_of_its_neighbour() {
    let content = "a.flac|flac\na.wav|wav\nb.wav|only wav\nc|any\n";
    let (folder, found) = table(content.as_bytes(), "metadata.csv", "2");
    let found = found.unwrap();
    assert!(found.faults.is_empty(), "{:?}", found.faults);
    let at = |name: &str| folder.path().join(name).display().to_string();
    for (name, expected) in [("a.flac", "flac"), ("a.wav", "wav"), ("b.flac", "only wav"), ("c.mp3", "any")] {
        assert_eq!(text(&found, &at(name)), expected, "{name}");
    }
    for neighbour in ["b.wav", "b.WAV"] {
        std::fs::write(folder.path().join(neighbour), "").unwrap();
        assert!(found.text(&at("b.flac")).is_err(), "{neighbour}");
        std::fs::remove_file(folder.path().join(neighbour)).unwrap();
    }
    assert_eq!(text(&found, &at("b.wav")), "only wav");
}

#[test]
fn quotes_within_words_are_letters() {
    let content = "path,text\na,5\" pipe\nb,\"two\"\nc,6\" pipe, \"x\"\n";
    let (_folder, found) = table(content.as_bytes(), "t.csv", "text");
    let found = found.unwrap();
    assert_eq!(["a", "b", "c"].map(|name| text(&found, name)), ["5\" pipe", "two", "6\" pipe"]);
}

#[test]
fn rows_after_an_open_quote_and_a_huge_line_are_where_they_were() {
    let content = ["\u{feff}a,\"one\nb,two\nh,", &"x".repeat(3 << 20), "\nc,three\nd,four\n"].concat();
    let (_folder, found) = table(content.as_bytes(), "t.csv", "2");
    let found = found.unwrap();
    assert_eq!(["b", "c", "d"].map(|name| text(&found, name)), ["two", "three", "four"]);
    let lines: Vec<u32> = found.faults.iter().map(|fault| fault.0).collect();
    assert_eq!(lines, [1, 3]);
}

#[test]
fn a_table_without_any_text_is_an_error() {
    for (content, column, message) in [
        (&b"a|one\nb|two\n"[..], "3", ":1: 2 columns; the text is column 3"),
        (b"", "1", "the table has no rows"),
        (b"path,text\n", "text", "the table has no rows"),
        (b"\xff\xfep\0a\0t\0h\0\n\0", "text", "this is not UTF-8"),
    ] {
        let (_folder, found) = table(content, "t.csv", column);
        assert!(found.unwrap_err().to_string().ends_with(message), "{content:?}");
    }
}

#[test]
fn a_table_without_a_row_of_any_input_is_an_error() {
    let content = "client_id,text\n77aa,one\n77ab,two\nb,three\n";
    let (_folder, found) = table(content.as_bytes(), "t.csv", "text");
    let found = found.unwrap();
    let inputs = |names: &[&str]| Inputs {
        files: names.iter().map(|name| Input::new(name.as_ref(), PathBuf::from(name))).collect(),
        ..Inputs::default()
    };
    found.check_inputs(&inputs(&["a.wav", "b.wav"])).unwrap();
    let error = found.check_inputs(&inputs(&["a.wav", "c.wav"])).unwrap_err();
    assert!(error.to_string().ends_with("line 2 names `77aa`, the first file is a.wav"), "{error}");
    assert_eq!(Remedy::of(&error), [Remedy::NamePathColumn]);
}

#[test]
fn an_open_quote_costs_one_row() {
    let (_folder, found) = table(b"a,\"one\nb,two\nc,three\n", "t.csv", "2");
    let found = found.unwrap();
    assert_eq!((text(&found, "b.wav"), text(&found, "c.wav")), ("two".to_owned(), "three".to_owned()));
    assert_eq!(found.faults.len(), 1);
    assert!(found.faults[0].1.message.contains("quote"), "{:?}", found.faults);
}
