use std::path::Path;

use super::*;
use crate::audio::wav::SampleFormat;
use crate::context::Context;
use crate::dataset::{Lines, verify};
use crate::output::Existing;
use crate::runtime::memory::{Budget, Needed};
use crate::snac::Model;
use crate::speak::tests::gpu;
use crate::speak::{Delivery, Speaker, synthetic};
use crate::{Error, Result};

const LINES: &str = "{\"text\": \"Good morning.\", \"name\": \"a\"}\n\nnot json\n\
                     {\"text\": \"How are you?\", \"voice\": \"bob\", \"seed\": 4}\n{\"text\": \"🎉\"}\n\
                     {\"text\": \"Again.\", \"name\": \"a\"}\n{\"text\": \"And this.\", \"seed\": 9}\n";

fn speaker(folder: &Path) -> Speaker {
    speaker_in(&Context::cpu().unwrap(), folder)
}

fn speaker_in(context: &Context, folder: &Path) -> Speaker {
    let codec = Model::mini24().unwrap();
    let shape = synthetic::Shape { end: 2.2, ..synthetic::Shape::default() };
    synthetic::write(folder, &codec, shape, 5).unwrap();
    Speaker::open_in(context, folder, codec.into()).unwrap()
}

fn quiet(_: Event<'_>) -> Result<()> {
    Ok(())
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[test]
fn lines_are_read_and_bad_ones_kept_as_errors() {
    let list = List::parse("list.jsonl", LINES).unwrap();
    assert_eq!(list.lines.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 3, 4, 5, 6, 7]);
    assert!(list.lines[1].1.as_ref().unwrap_err().to_string().contains("this is not JSON, at column 2"));
    for (line, expected) in [
        ("{\"text\": \"a\", \"speed\": 2}", "unknown field `speed`"),
        ("{\"name\": \"a\"}", "missing field `text`"),
        ("{\"text\": \"a\", \"name\": \"\"}", "cannot be the name of a file"),
        ("{\"text\": \"a\", \"name\": \"../b\"}", "cannot be the name of a file"),
        ("{\"text\": \"a\", \"name\": \"b\\u0000\"}", "cannot be the name of a file"),
        ("{\"text\": \"a\", \"seed\": -1}", "invalid value"),
    ] {
        let error = Line::from_json(line).unwrap_err();
        assert!(error.to_string().contains(expected), "{line}: {error}");
    }
}

/// Returns the memory that a list is said to need.
fn needed(speaker: &Speaker, folder: &Path, lines: &[&str]) -> Needed {
    let lines: Vec<String> = lines.iter().map(|text| format!("{{\"text\": \"{text}\"}}")).collect();
    let list = List::parse("list.jsonl", &lines.join("\n")).unwrap();
    let mut found = None;
    let mut stop = |event: Event<'_>| match event {
        Event::Needs(needed) => {
            found = Some(needed);
            Err(Error::invalid("stop"))
        }
        _ => Ok(()),
    };
    Job::new(speaker, &list).to_folder(folder, SampleFormat::S16, &mut stop).unwrap_err();
    found.unwrap()
}

fn needs_what_its_longest_text_needs(context: &Context) -> [Needed; 2] {
    let folder = tempfile::tempdir().unwrap();
    let speaker = speaker_in(context, folder.path());
    let long = "A sentence that takes a while. ".repeat(8);
    let of = |lines: &[&str]| needed(&speaker, &folder.path().join("clips"), lines);
    let [short, alone] = [of(&["Hi."]), of(&[&long])];
    assert_eq!([of(&[&long, "Hi."]), of(&["Hi.", &long])], [alone; 2]);
    [short, alone]
}

#[test]
fn a_list_needs_the_memory_of_its_longest_text() {
    let [short, long] = needs_what_its_longest_text_needs(&Context::cpu().unwrap());
    assert!(short.host < long.host, "{short:?}, {long:?}");
}

/// Only the memory of the device depends on the text there.
#[test]
fn a_list_needs_the_memory_of_its_longest_text_on_cuda() {
    let Some(context) = gpu() else { return };
    let [short, long] = needs_what_its_longest_text_needs(&context);
    assert!(short.host == long.host && short.device < long.device, "{short:?}, {long:?}");
}

#[test]
fn a_corpus_resumes_at_any_text_with_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (speaker, list) = (speaker(&at("voice")), List::parse("list.jsonl", LINES).unwrap());
    let job = Job::new(&speaker, &list);
    let (spoken, gathered) = job.to_corpus(Corpus::new(at("a.safetensors")).unwrap(), &mut quiet).unwrap();
    assert_eq!((spoken.n_spoken, spoken.n_kept, gathered.rows), (3, 0, 3));
    assert_eq!(spoken.failures.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [3, 5, 6]);
    let listed: Vec<&str> = gathered.failures.iter().map(|failure| failure.path.as_str()).collect();
    assert_eq!(listed, ["list.jsonl:3", "list.jsonl:5", "list.jsonl:6"]);
    verify(at("a.safetensors"), 1, &Budget::limited(1 << 24)).unwrap().check().unwrap();

    // Stopped after each text, and begun again.
    let mut n_runs = 0;
    loop {
        n_runs += 1;
        let mut stop = |event: Event<'_>| match event {
            Event::Done => Err(Error::invalid("stop")),
            _ => Ok(()),
        };
        match job.to_corpus(Corpus::new(at("b.safetensors")).unwrap(), &mut stop) {
            Ok((spoken, gathered)) => {
                assert_eq!((spoken.n_spoken, spoken.n_kept, gathered.rows_resumed), (0, 3, 3));
                break;
            }
            Err(error) => assert_eq!(error.to_string(), "stop"),
        }
    }
    assert_eq!(n_runs, 4);
    assert!(read(&at("a.safetensors")) == read(&at("b.safetensors")));
    // Finished corpora stay as they are; other settings are other corpora.
    let (again, _) = job.to_corpus(Corpus::new(at("b.safetensors")).unwrap(), &mut quiet).unwrap();
    assert_eq!((again.n_spoken, again.n_kept), (0, 3));
    let other = Job::new(&speaker, &list).with_seed(1u64);
    let refused = other.to_corpus(Corpus::new(at("b.safetensors")).unwrap(), &mut quiet).unwrap_err();
    assert!(refused.to_string().contains("is not of this request"), "{refused}");
    let lines = Corpus::new(at("c.jsonl")).unwrap().with_lines(Some(Lines::default()));
    assert_eq!(job.to_corpus(lines, &mut quiet).unwrap().1.rows, 3);
}

#[test]
fn shards_and_folders_have_what_one_run_has() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (speaker, list) = (speaker(&at("voice")), List::parse("list.jsonl", LINES).unwrap());
    let job = || Job::new(&speaker, &list);
    let whole = job().to_folder(&at("whole"), SampleFormat::S16, &mut quiet).unwrap();
    assert_eq!((whole.n_spoken, whole.failures.len()), (3, 3));
    let mut n_spoken = [0; 4];
    for (index, n) in n_spoken.iter_mut().enumerate() {
        *n = job().with_shard(index, 4).to_folder(&at("parts"), SampleFormat::S16, &mut quiet).unwrap().n_spoken;
    }
    assert_eq!(n_spoken, [1, 1, 0, 1]);
    for name in ["a.wav", "000004.wav", "000007.wav"] {
        assert!(read(&at("whole").join(name)) == read(&at("parts").join(name)), "{name}");
    }
    let delivery = Delivery { speed: 2.0, ..speaker.format().settings().into() };
    let fast = job().with_delivery(delivery).with_existing(Existing::Replace);
    let fast = fast.to_folder(&at("parts"), SampleFormat::S16, &mut quiet).unwrap();
    assert_eq!(2 * fast.n_samples, whole.n_samples);
    let none = List::parse("list.jsonl", "not json").unwrap();
    let refused = Job::new(&speaker, &none).to_folder(&at("none"), SampleFormat::S16, &mut quiet).unwrap_err();
    assert!(refused.to_string().contains("no line of it can be spoken") && !at("none").exists(), "{refused}");
}
