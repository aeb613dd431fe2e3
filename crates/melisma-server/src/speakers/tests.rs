use std::time::{Duration, Instant};

use melisma::Device;
use melisma::runtime::memory::Budget;
use melisma::snac::{Config, Model};
use melisma::speak::Opening;
use melisma::speak::synthetic::{self, Shape};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::*;

/// A model that never ends by itself, and its codec.
fn model() -> (TempDir, Arc<Model>) {
    let mut small = Config::snac_24khz();
    (small.encoder_dim, small.decoder_dim, small.codebook_size) = (8, 64, 16);
    let (codec, folder) = (Arc::new(Model::random(small, 1).unwrap()), tempfile::tempdir().unwrap());
    synthetic::write(folder.path(), &codec, Shape { end: -20.0, ..Shape::default() }, 3).unwrap();
    (folder, codec)
}

fn open(folder: &Path, codec: &Arc<Model>, (sizing, decoding): (Sizing, Decoding)) -> Speakers {
    let context = Context::on(Device::cpu().unwrap(), Budget::unlimited()).unwrap();
    let models = [VoiceModel::new(Some("one"), folder).unwrap()];
    let (opening, log) = (Opening::default(), Log::default());
    let loading = Loading { context: &context, codec, opening, sizing, decoding, log };
    open_all(&models, loading).unwrap().pop().unwrap()
}

/// Speakers of a model that never ends by itself, and the folder that it uses.
fn endless(n: usize) -> (Speakers, TempDir) {
    let (folder, codec) = model();
    (open(folder.path(), &codec, (Sizing(Some(n)), Decoding::new(64))), folder)
}

fn begin(speakers: &Speakers, text: &str) -> Speech {
    let slot = speakers.slots().try_acquire().unwrap();
    speakers.open_in(slot, speakers.script(text, "", 0).unwrap()).unwrap()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Reads a text to its end; returns its frames.
async fn frames(speech: &mut Speech) -> usize {
    let mut n = 0;
    loop {
        let said = speech.next().await.unwrap();
        n += said.codes.map_or(0, |codes| codes.n_frames());
        if let Some(end) = said.end {
            assert_eq!(end.unwrap().frames, n as u64);
            return n;
        }
    }
}

#[test]
fn a_measured_capacity_is_cached_and_compared_at_the_next_start() {
    let ((folder, codec), cached) = (model(), tempfile::tempdir().unwrap());
    let cache = CapacityCache::of(cached.path(), &codec, &Device::cpu().unwrap(), 64);
    let start = |n| {
        let decoding = Decoding { cache: Some(cache.clone()), ..Decoding::new(64) };
        *open(folder.path(), &codec, (Sizing(n), decoding)).capacity()
    };
    assert_eq!((start(Some(2)).measured, CapacityCache::count(cached.path())), (None, 0));
    let first = start(None);
    let measured = first.measured.unwrap();
    assert!(measured.n_rounds >= 1 && measured.capacity.streams == first.speakers, "{first:?}");
    let file = std::fs::read_dir(cached.path().join("capacity")).unwrap().next().unwrap().unwrap().path();
    // No measurement is as steady as this one.
    let mut content: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    content["measurement"]["error"] = 0.0.into();
    content["measurement"]["capacity"]["streams"] = 1.into();
    std::fs::write(&file, content.to_string()).unwrap();
    let second = start(None);
    assert_eq!((second.speakers, second.source), (1, SpeakerSource::Cached));
    assert!(second.measured.is_some() && CapacityCache::count(cached.path()) == 1);
}

#[test]
fn a_client_that_takes_nothing_pauses_its_text_alone() {
    let (speakers, _folder) = endless(2);
    let n_tokens = || speakers.metrics().json()["tokens"].as_u64().unwrap();
    let mut slow = begin(&speakers, "Hi.");
    until("it waits", || n_tokens() >= (WAITING * 7) as u64);
    let runtime = Runtime::new().unwrap();
    assert_eq!(runtime.block_on(frames(&mut begin(&speakers, "Hi."))), 66);
    // All tokens of the second, and of the first those that found room.
    assert_eq!(n_tokens(), ((66 + WAITING) * 7) as u64);
    assert_eq!(runtime.block_on(frames(&mut slow)), 66);
    assert_eq!(n_tokens(), 2 * 66 * 7);
    until("all is free", || speakers.slots().in_use() == 0 && speakers.metrics().held_bytes() == 0);
}

#[test]
fn a_client_that_leaves_frees_its_place() {
    let (speakers, _folder) = endless(1);
    let first = begin(&speakers, "Hi.");
    assert!(speakers.slots().try_acquire().is_none());
    drop(first);
    until("the place is free", || speakers.slots().in_use() == 0);
    until("the memory is free", || speakers.metrics().held_bytes() == 0);
    assert_eq!(Runtime::new().unwrap().block_on(frames(&mut begin(&speakers, "Hi."))), 66);
}

#[test]
fn speakers_that_end_fail_the_texts_that_are_open() {
    let (speakers, _folder) = endless(1);
    let mut speech = begin(&speakers, "Hi.");
    drop(speakers);
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        while let Some(said) = speech.next().await {
            if let Some(end) = said.end {
                assert!(end.is_err());
            }
        }
    });
}
