//! Verifications and merges that are stopped.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use melisma::dataset::{Counters, Inputs, Lines, Merge, Request, StoreKind, Tokens, merge_watched, verify_watched};
use melisma::runtime::memory::Budget;

use crate::dataset_tokens::{corpus, model};

fn build(files: &Path, output: PathBuf, shard: usize) -> PathBuf {
    let inputs = Inputs::find(&[files]).unwrap();
    let mut request = Request::new(&inputs, &output, Tokens::new(model())).unwrap().with_shard(shard, 2);
    if Lines::is_name(&output) {
        request = request.with_store(StoreKind::Safetensors).with_lines(Lines::default());
    }
    request.build().unwrap();
    output
}

#[test]
fn a_stop_ends_them_and_leaves_no_output() {
    let folder = tempfile::tempdir().unwrap();
    let files = corpus(folder.path(), &[3000, 5000, 2048]);
    let budget = Budget::limited(64 << 20);
    let counters = |stop| Counters::stopped_by(Arc::new(AtomicBool::new(stop)));
    for (suffix, outputs) in [("safetensors", &["all.h5", "all.jsonl"][..]), ("jsonl", &["all.jsonl"])] {
        let shards: Vec<PathBuf> =
            (0..2).map(|shard| build(&files, folder.path().join(format!("{shard}.{suffix}")), shard)).collect();
        let before = names(folder.path());
        let error = verify_watched(&shards[0], 2, &budget, &counters(true)).unwrap_err();
        assert!(error.to_string().contains("the work was stopped"), "{suffix}: {error}");
        for output in outputs {
            let path = folder.path().join(output);
            let request = Merge::new(&shards, &path, StoreKind::Hdf5, &budget);
            let error = merge_watched(&request, &counters(true)).unwrap_err();
            assert!(error.to_string().contains("the work was stopped"), "{suffix} to {output}: {error}");
            assert_eq!(names(folder.path()), before, "{suffix} to {output}");
            assert_eq!(merge_watched(&request, &counters(false)).unwrap().rows, 3);
            assert_eq!(verify_watched(&path, 1, &budget, &counters(false)).unwrap().rows, 3);
            for name in names(folder.path()).iter().filter(|name| name.starts_with("all")) {
                std::fs::remove_file(folder.path().join(name)).unwrap();
            }
        }
        // Lines by themselves.
        if suffix == "jsonl" {
            std::fs::remove_file(folder.path().join("0.jsonl.origin.json")).unwrap();
            assert!(verify_watched(&shards[0], 2, &budget, &counters(true)).is_err());
            assert!(verify_watched(&shards[0], 2, &budget, &counters(false)).is_ok());
        }
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
