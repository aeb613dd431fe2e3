use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::folder::{QUARANTINE, USED, uses};
use super::*;
use crate::random::Lcg64;

fn options() -> Options {
    Options { limit_bytes: 1 << 30, threads: 2 }
}

fn parts(model: &str) -> Parts {
    Parts::default().with("model", model).with("engine", "rten 0.27").with("inputs", "x=f32[1,4]")
}

fn build(folder: &Path) -> Result<Built> {
    std::fs::write(folder.join("model.onnx"), (0..9000u32).map(|i| (i * 7) as u8).collect::<Vec<_>>()).unwrap();
    std::fs::write(folder.join("note"), b"small").unwrap();
    let self_check = vec![Sample::take("y", &[2, 2], &[1.0, -2.0, 0.5, f32::NAN])];
    Ok(Built { plan: json!({ "engine": "rten", "threads": 2 }), self_check })
}

fn cached(cache: &Cache, parts: &Parts) -> (Entry, Option<Miss>) {
    cache.find_or_build(parts, &mut build).unwrap()
}

#[test]
fn the_second_time_is_a_hit_and_a_miss_says_what_changed() {
    let root = tempfile::tempdir().unwrap();
    let cache = Cache::open(Some(root.path()), options());
    let (entry, reason) = cached(&cache, &parts("a"));
    assert_eq!(reason, Some(Miss::Unknown));
    assert!(entry.folder.join("model.onnx").is_file() && entry.uncached.is_none());
    let (entry, reason) = cached(&cache, &parts("a"));
    assert_eq!((reason, &entry.manifest.plan["engine"]), (None, &json!("rten")));
    assert_eq!(uses(&entry.folder), 2);
    let (_, reason) = cached(&cache, &parts("a").with("engine", "rten 0.28"));
    let reason = reason.unwrap().to_string();
    assert_eq!(reason, "changed since the last time: engine: rten 0.27 -> rten 0.28");
    let (_, reason) = cached(&cache, &parts("b"));
    assert_eq!(reason, Some(Miss::Unknown), "other weights are another model");
    assert_eq!(cache.list().len(), 3);
    // The whole folder can be moved.
    let elsewhere = root.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::rename(root.path().join("engines"), elsewhere.join("engines")).unwrap();
    assert!(matches!(Cache::open(Some(&elsewhere), options()).find(&parts("a")), Found::Hit(_)));
}

/// The files of an entry.
const FILES: [&str; 4] = ["model.onnx", "note", "manifest.json", "seal"];

fn flip_bit(bytes: &mut [u8], random: &mut Lcg64) {
    let at = random.below(bytes.len());
    bytes[at] ^= 1 << random.below(8);
}

#[test]
fn no_damage_is_ever_served() {
    let root = tempfile::tempdir().unwrap();
    let cache = Cache::open(Some(root.path()), options());
    let (entry, _) = cached(&cache, &parts("a"));
    let whole = FILES.map(|name| std::fs::read(entry.folder.join(name)).unwrap());
    let mut random = Lcg64::new(1);
    for round in 0..120 {
        let which = random.below(FILES.len());
        let mut bytes = whole[which].clone();
        match round % 5 {
            0 | 1 => flip_bit(&mut bytes, &mut random),
            2 => bytes.truncate(random.below(bytes.len())),
            3 => bytes.fill(0),
            _ => bytes.push(b' '),
        }
        std::fs::write(entry.folder.join(FILES[which]), &bytes).unwrap();
        let Found::Miss(reason) = cache.find(&parts("a")) else { panic!("{round}: {} was served", FILES[which]) };
        assert!(matches!(&reason, Miss::Rejected(why) if why.starts_with("the entry was set aside: ")), "{reason}");
        let (again, reason) = cached(&cache, &parts("a"));
        assert!(reason.is_some() && again.folder == entry.folder);
        for (name, bytes) in FILES.iter().zip(&whole).take(2) {
            assert!(std::fs::read(again.folder.join(name)).unwrap() == *bytes, "made again as it was");
        }
        std::fs::write(entry.folder.join("manifest.json"), &whole[2]).unwrap();
        std::fs::write(entry.folder.join("seal"), &whole[3]).unwrap();
    }
    let aside = cache.list().into_iter().filter(|entry| matches!(entry.health, Health::SetAside(_))).count();
    assert!((1..=8).contains(&aside), "{aside} stay for a look");
}

#[test]
fn an_entry_under_another_key_is_foreign() {
    let root = tempfile::tempdir().unwrap();
    let cache = Cache::open(Some(root.path()), options());
    let (entry, _) = cached(&cache, &parts("a"));
    let wrong = entry.folder.with_file_name(parts("b").key().as_str());
    std::fs::rename(&entry.folder, &wrong).unwrap();
    let Found::Miss(reason) = cache.find(&parts("b")) else { panic!("the engine of another model was served") };
    assert_eq!(reason.to_string(), "the entry was set aside: it is the entry of another key");
    std::os::unix::fs::symlink("/etc/passwd", root.path().join("engines").join(parts("c").key().as_str())).unwrap();
    assert!(matches!(cache.find(&parts("c")), Found::Miss(_)));
    std::fs::create_dir(root.path().join("engines/holiday")).unwrap();
    let strange = cache.list().into_iter().find(|entry| entry.name == "holiday").unwrap();
    assert!(matches!(strange.health, Health::Bad(_)));
}

#[test]
fn verify_names_what_is_damaged() {
    let root = tempfile::tempdir().unwrap();
    let cache = Cache::open(Some(root.path()), options());
    let (good, bad) = (cached(&cache, &parts("good")).0, cached(&cache, &parts("bad")).0);
    std::fs::write(bad.folder.join("note"), b"SMALL").unwrap();
    let listed = cache.verify();
    let health = |entry: &Entry| {
        let name = entry.folder.file_name().unwrap().to_str().unwrap();
        &listed.iter().find(|listed| listed.name == name).unwrap().health
    };
    assert!(matches!(health(&good), Health::Good(_)));
    assert!(matches!(health(&bad), Health::Bad(reason) if reason == "note: its content changed"));
    assert!(!bad.folder.exists(), "set aside");
    assert_eq!(cache.clear().unwrap().0, 1);
    assert!(cache.list().is_empty());
}

#[test]
fn the_least_recently_used_goes_first() {
    let root = tempfile::tempdir().unwrap();
    let cache = Cache::open(Some(root.path()), Options { limit_bytes: 35_000, threads: 1 });
    let later = |entry: &Entry, seconds: u64| {
        let time = SystemTime::now() - Duration::from_secs(1000 - seconds);
        File::options().write(true).open(entry.folder.join(USED)).unwrap().set_modified(time).unwrap();
    };
    later(&cached(&cache, &parts("a")).0, 3);
    later(&cached(&cache, &parts("b")).0, 1);
    later(&cached(&cache, &parts("c")).0, 2);
    cached(&cache, &parts("d"));
    let kept = |model: &str| matches!(cache.find(&parts(model)), Found::Hit(_));
    assert_eq!(["a", "b", "c", "d"].map(kept), [true, false, true, true]);
}

/// Quarantined entries and leftovers of dead builders count against the limit and are removed when
/// they are the oldest.
#[test]
fn a_nearly_full_cache_makes_room() {
    let root = tempfile::tempdir().unwrap();
    let engines = root.path().join("engines");
    let wide = Cache::open(Some(root.path()), Options { limit_bytes: 1 << 30, threads: 1 });
    let at = |path: &Path, seconds: u64| {
        let time = SystemTime::now() - Duration::from_secs(1000 - seconds);
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    };
    let entry = |model: &str, seconds: u64| {
        let made = cached(&wide, &parts(model)).0;
        at(&made.folder.join(USED), seconds);
        made
    };
    let aside = |model: &str, seconds: u64| {
        std::fs::write(entry(model, 0).folder.join("note"), b"SMALL").unwrap();
        assert!(matches!(wide.find(&parts(model)), Found::Miss(_)));
        let reasons = std::fs::read_dir(engines.join(QUARANTINE)).unwrap().map(|entry| entry.unwrap().path());
        let reason = reasons.filter(|path| path.extension().is_some_and(|end| end == "reason"));
        let reason = reason.filter(|path| path.to_string_lossy().contains(parts(model).key().as_str()));
        at(&reason.last().unwrap(), seconds);
    };
    aside("old", 1);
    entry("a", 2);
    entry("b", 4);
    aside("new", 3);
    let left = engines.join(format!("{BUILDING}{}-999999", parts("dead").key().as_str()));
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("model.onnx"), vec![0; 1 << 20]).unwrap();
    let held = parts("held").key();
    let building = engines.join(format!("{BUILDING}{}-999999", held.as_str()));
    std::fs::create_dir(&building).unwrap();
    let lock = lock(&engines, &held).unwrap();
    // Room for four entries of about ten thousand bytes.
    let full = Cache { limit_bytes: 44_000, ..wide.clone() };
    cached(&full, &parts("c"));
    let there = |cache: &Cache| {
        let listed = cache.list();
        let kept = ["a", "b", "c"].map(|model| listed.iter().any(|entry| entry.name == parts(model).key().as_str()));
        (kept, listed.iter().filter(|entry| matches!(entry.health, Health::SetAside(_))).count())
    };
    assert_eq!(there(&full), ([true, true, true], 1), "the oldest was set aside");
    assert!(!left.exists() && building.exists(), "only the dead leave something");
    drop(lock);
    let tiny = Cache { limit_bytes: 1, ..wide.clone() };
    cached(&tiny, &parts("d"));
    assert_eq!(there(&tiny), ([false; 3], 0));
    assert!(matches!(tiny.find(&parts("d")), Found::Hit(_)), "what was just made stays");
    assert!(!building.exists());
    assert_eq!(std::fs::read_dir(engines.join(QUARANTINE)).unwrap().count(), 0, "reasons go with their entries");
}

#[test]
fn without_a_usable_folder_everything_still_works() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("file"), b"").unwrap();
    let below_a_file = Cache::open(Some(&root.path().join("file")), options());
    let open = Cache::open(Some(root.path()), options());
    let made_before = cached(&open, &parts("kept")).0;
    let read_only = Cache {
        access: Access::ReadOnly(open.folder().unwrap().to_owned(), "the cache can only be read: test".to_owned()),
        ..open.clone()
    };
    for cache in [Cache::open(None, options()), below_a_file, read_only.clone()] {
        let note = cache.note().unwrap().to_owned();
        let (entry, reason) = cached(&cache, &parts("new"));
        assert!(reason.is_some() && entry.folder.join("model.onnx").is_file());
        assert_eq!(entry.uncached.as_ref().unwrap().reason, note);
        let folder = entry.folder.clone();
        drop(entry);
        assert!(!folder.exists(), "nothing is left");
    }
    assert!(matches!(read_only.find(&parts("kept")), Found::Hit(entry) if entry.folder == made_before.folder));
    let note = std::fs::read(made_before.folder.join("note")).unwrap();
    std::fs::write(made_before.folder.join("note"), b"SMALL").unwrap();
    let Found::Miss(reason) = read_only.find(&parts("kept")) else { panic!("damage was served") };
    assert_eq!(reason.to_string(), "the entry cannot be used: note: its content changed; it stays where it is");
    std::fs::write(made_before.folder.join("note"), note).unwrap();

    let mut calls = 0;
    let (entry, _) = open
        .find_or_build(&parts("full"), &mut |folder| {
            calls += 1;
            if calls == 1 {
                return Err(failed(folder, std::io::ErrorKind::StorageFull.into()));
            }
            build(folder)
        })
        .unwrap();
    assert!(entry.uncached.as_ref().unwrap().reason.contains("storage"), "{:?}", entry.uncached);
    let failing = open.find_or_build(&parts("x"), &mut |_| Err(crate::Error::invalid("no"))).unwrap_err();
    assert_eq!(failing.to_string(), "no");
    assert!(!names_below(root.path()).iter().any(|name| name.starts_with(BUILDING)), "nothing half-made is left");
}

fn names_below(root: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(root.join("engines")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_folder_of_somebody_else_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let engines = root.path().join("engines");
    std::fs::create_dir(&engines).unwrap();
    std::fs::set_permissions(&engines, std::fs::Permissions::from_mode(0o777)).unwrap();
    let cache = Cache::open(Some(root.path()), options());
    assert!(cache.note().unwrap().contains("everybody may write to it"), "{:?}", cache.note());
    std::fs::set_permissions(&engines, std::fs::Permissions::from_mode(0o700)).unwrap();
    if std::os::unix::fs::chown(&engines, Some(12_345), None).is_err() {
        return crate::golden::skip("only root can give a folder away");
    }
    let cache = Cache::open(Some(root.path()), options());
    assert!(cache.note().unwrap().contains("belongs to user 12345"), "{:?}", cache.note());
    assert!(cached(&cache, &parts("a")).0.uncached.is_some());
}

#[test]
fn samples_see_a_wrong_engine() {
    let values: Vec<f32> = (0..1000).map(|i| i as f32 / 100.0 - 5.0).collect();
    let sample = Sample::take("y", &[10, 100], &values);
    assert_eq!((sample.stride, sample.values.len(), sample.largest), (4, 250, 5.0));
    sample.check(&[10, 100], &values, 1e-6).unwrap();
    let mut near = values.clone();
    near[400] += 0.001;
    sample.check(&[10, 100], &near, 1e-3).unwrap();
    let wrong = sample.check(&[10, 100], &near, 1e-5).unwrap_err();
    assert!(wrong.to_string().contains("at element 400"), "{wrong}");
    assert!(sample.check(&[1000], &values, 1.0).is_err());
    near[0] = f32::NAN;
    assert!(sample.check(&[10, 100], &near, 1.0).is_err());
    let json = serde_json::to_string(&sample).unwrap();
    assert_eq!(serde_json::from_str::<Sample>(&json).unwrap(), sample);
}

const ROOT: &str = "MELISMA_TEST_CACHE_ROOT";

#[test]
fn thirty_two_processes_build_once() {
    let root = tempfile::tempdir().unwrap();
    let child = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "optimize::cache::tests::one_of_many", "--ignored", "--quiet"]);
        command.env(ROOT, root.path()).stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    let children: Vec<_> = (0..32).map(|_| child()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let builds = std::fs::read_dir(root.path().join("builds")).unwrap().count();
    assert_eq!(builds, 1);
    let cache = Cache::open(Some(root.path()), options());
    let Found::Hit(entry) = cache.find(&parts("shared")) else { panic!("not cached") };
    assert!(uses(&entry.folder) > 1);
}

#[test]
#[ignore = "extended: started by thirty_two_processes_build_once"]
fn one_of_many() {
    let Some(root) = std::env::var_os(ROOT).map(PathBuf::from) else { return };
    let cache = Cache::open(Some(&root), options());
    let (entry, _) = cache
        .find_or_build(&parts("shared"), &mut |folder| {
            std::fs::create_dir_all(root.join("builds")).unwrap();
            std::fs::write(root.join("builds").join(std::process::id().to_string()), b"").unwrap();
            std::thread::sleep(Duration::from_millis(300));
            build(folder)
        })
        .unwrap();
    assert!(entry.folder.join("model.onnx").is_file() && entry.uncached.is_none());
}

#[test]
fn a_killed_builder_leaves_nothing_that_matters() {
    let root = tempfile::tempdir().unwrap();
    let cache = Cache::open(Some(root.path()), options());
    let left = root.path().join("engines").join(format!("{BUILDING}{}-999999", parts("a").key().as_str()));
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("model.onnx"), b"half").unwrap();
    assert!(matches!(cache.find(&parts("a")), Found::Miss(_)));
    cached(&cache, &parts("a"));
    assert!(!left.exists());
}

#[test]
#[ignore = "extended: 10,000 damaged entries"]
fn ten_thousand_damages_are_never_served() {
    let root = tempfile::tempdir().unwrap();
    let cache = Cache::open(Some(root.path()), options());
    let (entry, _) = cached(&cache, &parts("a"));
    let whole = FILES.map(|name| std::fs::read(entry.folder.join(name)).unwrap());
    let mut random = Lcg64::new(99);
    for round in 0..10_000 {
        std::fs::create_dir_all(&entry.folder).unwrap();
        for (name, bytes) in FILES.iter().zip(&whole) {
            std::fs::write(entry.folder.join(name), bytes).unwrap();
        }
        let (first, second) = (random.below(FILES.len()), random.below(FILES.len()));
        let mut bytes = whole[first].clone();
        match round % 4 {
            0 => flip_bit(&mut bytes, &mut random),
            1 => bytes.truncate(random.below(bytes.len())),
            2 => {
                let at = random.below(bytes.len());
                let other = bytes[at].wrapping_add(1);
                bytes[at..].fill(other);
            }
            _ if first != second => bytes = whole[second].clone(),
            _ => bytes.clear(),
        }
        std::fs::write(entry.folder.join(FILES[first]), &bytes).unwrap();
        assert!(matches!(cache.find(&parts("a")), Found::Miss(_)), "{round}: {} was served", FILES[first]);
    }
}
