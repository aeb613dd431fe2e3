use super::*;
use crate::dataset::{LineFormat, Merge, merge, verify};
use crate::runtime::memory::Budget;

fn model() -> Arc<Model> {
    Arc::new(Model::mini24().unwrap())
}

fn codes(model: &Model, row: usize) -> Codes {
    let frames: Vec<i32> = (0..7 * (row + 1)).map(|at| ((at * 31 + row * 7) % 4096) as i32).collect();
    Codes::from_frames(model.config(), &frames).unwrap()
}

fn sources(indices: std::ops::Range<u32>) -> Vec<Source> {
    let source =
        |index| Source { index, name: format!("{index:06}"), text: format!("Text {index}."), kept: Vec::new() };
    indices.map(source).collect()
}

fn gather(model: &Arc<Model>, path: &Path) -> Gather {
    let mut gather = Gather::new(Arc::clone(model), path, sources(0..5), "asked");
    gather.refuse(9, "list.jsonl:10".to_owned(), &Error::invalid("the text is empty"));
    gather
}

/// Makes the rows of `order`.
fn make(gathering: &mut Gathering, model: &Model, order: &[usize]) {
    for &row in order {
        match row {
            3 => gathering.fail(row, &Error::corrupt("the logits are NaN")).unwrap(),
            _ => gathering.push(row, &codes(model, row)).unwrap(),
        }
    }
}

fn built(folder: &Path, name: &str, orders: &[&[usize]], with: impl Fn(Gather) -> Gather) -> (Gathered, Vec<u8>) {
    let (model, path) = (model(), folder.join(name));
    let mut n_made = 0;
    for order in orders {
        let mut gathering = with(gather(&model, &path)).begin().unwrap();
        assert_eq!((0..5).filter(|&row| gathering.is_done(row)).count(), n_made);
        make(&mut gathering, &model, order);
        n_made += order.len();
        assert!(gathering.push(order[0], &codes(&model, 0)).is_err() && gathering.push(5, &codes(&model, 0)).is_err());
    }
    let gathered = with(gather(&model, &path)).begin().unwrap().finish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    (gathered, bytes)
}

#[test]
fn order_and_interruptions_change_no_byte() {
    let folder = tempfile::tempdir().unwrap();
    let (first, bytes) = built(folder.path(), "a.safetensors", &[&[0, 1, 2, 3, 4]], |gather| gather);
    assert_eq!((first.rows, first.rows_resumed, first.frames), (4, 5, Some(1 + 2 + 3 + 5)));
    let listed: Vec<&str> = first.failures.iter().map(|failure| failure.path.as_str()).collect();
    assert_eq!(listed, ["000003", "list.jsonl:10"]);
    let (second, others) = built(folder.path(), "b.safetensors", &[&[4, 3], &[0], &[2, 1]], |gather| gather);
    assert!(bytes == others);
    assert_eq!((second.frames, &second.failures), (first.frames, &first.failures));
    let path = folder.path().join("a.safetensors");
    let verified = verify(&path, 1, &Budget::limited(1 << 24)).unwrap();
    verified.check().unwrap();
    assert_eq!((verified.rows, verified.plan_matches), (4, Some(true)));
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 4, "{left:?}");
    // A finished corpus is left as it is, and one of another request is not touched.
    let again = gather(&model(), &path).begin().unwrap();
    assert!(again.is_done(4));
    assert_eq!(again.finish().unwrap(), Gathered { rows_resumed: 5, ..first });
    let other = Gather { request: "other".to_owned(), ..gather(&model(), &path) };
    assert!(other.begin().unwrap_err().to_string().contains("is not of this request"));
}

#[test]
fn lines_resume_too() {
    let folder = tempfile::tempdir().unwrap();
    let lines = Lines::default().with_format(LineFormat::Orpheus);
    let with = |gather: Gather| Gather { lines: Some(lines), ..gather };
    let (first, bytes) = built(folder.path(), "a.jsonl", &[&[0, 1, 2, 3, 4]], with);
    let (_, others) = built(folder.path(), "b.jsonl", &[&[1, 4], &[3, 2, 0]], with);
    assert!(bytes == others && first.rows == 4);
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.starts_with("{\"path\":\"000000\",\"seconds\":0.085"), "{text:.80}");
    assert!(text.contains("\"text\":\"Text 1.\",\"codes_list\":[1282"), "{text}");
    let path = folder.path().join("a.jsonl");
    assert_eq!(verify(&path, 1, &Budget::limited(1 << 24)).unwrap().rows, 4);
    assert_eq!(with(gather(&model(), &path)).begin().unwrap().finish().unwrap().rows, 4);
}

#[test]
fn rows_that_a_crash_has_cut_are_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = built(folder.path(), "a.safetensors", &[&[0, 1, 2, 3, 4]], |gather| gather);
    let (model, path) = (model(), folder.path().join("b.safetensors"));
    let mut gathering = gather(&model, &path).begin().unwrap();
    make(&mut gathering, &model, &[2, 0, 3, 1]);
    assert_eq!(gather(&model, &path).begin().unwrap_err().kind(), crate::ErrorKind::Busy);
    drop(gathering);
    let partial = folder.path().join("b.safetensors.partial");
    let len = std::fs::metadata(&partial).unwrap().len();
    std::fs::File::options().write(true).open(&partial).unwrap().set_len(len - 1).unwrap();
    let mut gathering = gather(&model, &path).begin().unwrap();
    assert_eq!((0..5).map(|row| gathering.is_done(row)).collect::<Vec<_>>(), [true, false, true, true, false]);
    make(&mut gathering, &model, &[4, 1]);
    gathering.finish().unwrap();
    assert!(bytes == std::fs::read(&path).unwrap());
    let unfinished = gather(&model, &folder.path().join("c.safetensors")).begin().unwrap();
    assert!(unfinished.finish().unwrap_err().to_string().contains("row 0 was not made"));
    let other = Gather { request: "other".to_owned(), ..gather(&model, &folder.path().join("c.safetensors")) };
    assert!(other.begin().unwrap_err().to_string().contains("unfinished"));
}

#[test]
fn unfinished_work_says_which_setting_was_another() {
    let folder = tempfile::tempdir().unwrap();
    let (model, path) = (model(), folder.path().join("a.safetensors"));
    let with = |request: &str, top_k: u32| {
        let settings = [("speech".to_owned(), serde_json::json!({ "min_p": null, "top_k": top_k }))];
        let settings = settings.into_iter().collect();
        Gather { request: request.to_owned(), ..gather(&model, &path) }.with_settings(settings)
    };
    drop(with("one", 40).begin().unwrap());
    // Opened a second time, it is written again.
    drop(with("one", 40).begin().unwrap());
    let refused = with("two", 50).begin().unwrap_err().to_string();
    assert!(refused.ends_with("unfinished build of other settings is there: speech.top_k was 40, is 50"), "{refused}");
    let refused = with("two", 40).begin().unwrap_err().to_string();
    assert!(refused.ends_with("unfinished build of other files or settings is there"), "{refused}");
}

#[test]
fn shards_merge_to_the_bytes_of_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let model = model();
    let whole = folder.path().join("whole.safetensors");
    let run = |path: &Path, rows: Vec<Source>, shard: (usize, usize)| {
        let first = rows[0].index as usize;
        let n = rows.len();
        let gather = Gather::new(Arc::clone(&model), path, rows, "asked").with_shard(shard.0, shard.1);
        let mut gathering = gather.begin().unwrap();
        (0..n).for_each(|row| gathering.push(row, &codes(&model, first + row)).unwrap());
        gathering.finish().unwrap();
    };
    run(&whole, sources(0..5), (0, 1));
    let shards = [folder.path().join("1.safetensors"), folder.path().join("2.safetensors")];
    run(&shards[1], sources(2..5), (1, 2));
    run(&shards[0], sources(0..2), (0, 2));
    let (merged, budget) = (folder.path().join("merged.safetensors"), Budget::limited(1 << 24));
    assert_eq!(merge(&Merge::new(&shards, &merged, Kind::Safetensors, &budget)).unwrap().rows, 5);
    assert!(std::fs::read(&merged).unwrap() == std::fs::read(&whole).unwrap());
}
