use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown, symlink};

use super::*;

#[test]
fn appears_whole_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.bin");
    let partial = directory.path().join("out.bin.partial");
    let mut file = OutputFile::create(&path, Existing::Refuse).unwrap();
    file.write_all(b"half").unwrap();
    assert!(partial.exists() && !path.exists());
    drop(file);
    assert!(!partial.exists() && !path.exists());

    std::fs::write(&partial, b"stale and longer").unwrap();
    write(&path, b"whole", Existing::Refuse).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"whole");
    assert!(!partial.exists());
}

#[test]
fn existing_files_are_refused_unless_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    write(&path, b"first", Existing::Refuse).unwrap();
    let refused = write(&path, b"second", Existing::Refuse).unwrap_err();
    assert!(refused.to_string().contains("exists already"), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), b"first");
    write(&path, b"second", Existing::Replace).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"second");
}

#[test]
fn two_writers_do_not_mix() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    let mut first = OutputFile::create(&path, Existing::Refuse).unwrap();
    // Both names lead to the same file.
    for name in ["out", "./out"] {
        let second = OutputFile::create(&directory.path().join(name), Existing::Refuse).unwrap_err();
        assert!(second.to_string().ends_with("two outputs of this command have this name"), "{second}");
    }
    first.write_all(b"mine").unwrap();
    first.commit().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
}

#[test]
fn another_process_is_not_disturbed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    let other = File::create(directory.path().join("out.partial")).unwrap();
    other.lock().unwrap();
    let refused = OutputFile::create(&path, Existing::Refuse).unwrap_err();
    assert!(refused.to_string().ends_with("another process is writing this file"), "{refused}");
}

#[test]
fn what_is_done_so_far_gets_another_name() {
    let directory = tempfile::tempdir().unwrap();
    let (path, so_far) = (directory.path().join("out"), directory.path().join("out.so-far"));
    std::fs::write(&so_far, b"earlier").unwrap();
    let mut file = OutputFile::create(&path, Existing::Refuse).unwrap();
    file.write_all(b"half").unwrap();
    file.commit_as(so_far.clone()).unwrap();
    assert_eq!(std::fs::read(so_far).unwrap(), b"half");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn bad_places_give_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    let missing = write(&directory.path().join("no/such/out"), b"x", Existing::Refuse).unwrap_err();
    assert!(missing.hint().unwrap().contains("folder"), "{missing}");
    let pipe = write(Path::new("-"), b"x", Existing::Replace).unwrap_err();
    assert!(pipe.to_string().contains("cannot be a pipe"), "{pipe}");
    let folder = write(directory.path(), b"x", Existing::Replace).unwrap_err();
    assert!(folder.to_string().contains("is a folder"), "{folder}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_with_a_hint() {
    let full = write(Path::new("/dev/full"), &[0; 1 << 20], Existing::Refuse).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::Io);
    assert!(full.hint().unwrap().contains("free some space"), "{full}");
}

#[test]
fn a_file_that_appears_meanwhile_is_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    for make in [|path: &Path| std::fs::write(path, b"theirs"), |path: &Path| symlink("nowhere", path)] {
        let mut file = OutputFile::create(&path, Existing::Refuse).unwrap();
        file.write_all(b"ours").unwrap();
        make(&path).unwrap();
        let refused = file.commit().unwrap_err();
        assert!(refused.kind() == ErrorKind::Exists && refused.to_string().ends_with("exists already"), "{refused}");
        assert!(std::fs::read(&path).is_ok_and(|bytes| bytes == b"theirs") || path.read_link().is_ok());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn links_are_followed() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::create_dir(at("deep")).unwrap();
    symlink("deep/two", at("one")).unwrap();
    symlink("../three", at("deep/two")).unwrap();
    let refused = write(&at("one"), b"x", Existing::Refuse).unwrap_err();
    assert!(
        refused.kind() == ErrorKind::Exists && refused.to_string().contains("this link exists already"),
        "{refused}"
    );
    assert!(!at("three").exists());
    for text in ["first", "second"] {
        write(&at("one"), text.as_bytes(), Existing::Replace).unwrap();
        assert_eq!(std::fs::read_to_string(at("three")).unwrap(), text);
        assert!(at("one").is_symlink() && at("deep/two").is_symlink() && !at("three").is_symlink());
    }
    write(&at("one"), b"x", Existing::Refuse).unwrap_err();
    // Both names lead to one file.
    let held = OutputFile::create(&at("one"), Existing::Replace).unwrap();
    let twice = OutputFile::create(&at("three"), Existing::Replace).unwrap_err();
    assert!(twice.to_string().ends_with("two outputs of this command have this name"), "{twice}");
    drop(held);
    symlink("cycle", at("cycle")).unwrap();
    let cycle = write(&at("cycle"), b"x", Existing::Replace).unwrap_err();
    assert!(cycle.to_string().ends_with("part of a cycle"), "{cycle}");
}

#[test]
fn a_replaced_file_keeps_its_permissions_and_owner() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    for mode in [0o600, 0o444, 0o640, 0o755, 0o4711] {
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, b"old").unwrap();
        // Only the superuser may give files away.
        let owner =
            chown(&path, Some(4711), Some(4712)).map_or_else(|_| std::fs::metadata(&path).unwrap().uid(), |()| 4711);
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let mut file = OutputFile::create(&path, Existing::Replace).unwrap();
        file.write_all(b"new").unwrap();
        let unfinished = std::fs::metadata(directory.path().join("out.partial")).unwrap();
        assert_eq!(unfinished.mode() & 0o077 & !mode, 0, "{mode:o}: who may not read it may not read the new one");
        file.commit().unwrap();
        let found = std::fs::metadata(&path).unwrap();
        assert_eq!((found.mode() & 0o7777, found.uid()), (mode, owner), "{mode:o}");
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }
}

#[test]
fn what_follows_a_patch_goes_to_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.bin");
    let mut file = OutputFile::create(&path, Existing::Refuse).unwrap();
    file.write_all(b"head body").unwrap();
    file.write_at(0, b"HEAD").unwrap();
    file.write_all(b" tail").unwrap();
    file.commit().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"HEAD body tail");
}
