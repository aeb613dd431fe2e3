//! The quality sheet keeps its limits.
#![allow(clippy::unwrap_used, reason = "a failed expectation is the test's own message")]

use melisma_bench::sheet::{Sheet, picture};

#[test]
fn every_limit_is_kept() {
    let sheet = Sheet::measure().unwrap();
    println!("{}", sheet.table().text());
    // What a capture costs can only be told on a machine that does nothing else.
    let wrong: Vec<_> =
        sheet.figures.iter().filter(|figure| !figure.holds && !figure.name.starts_with("capture")).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!(sheet.alias.len(), 88);
    let picture = picture(&sheet);
    assert!(picture.starts_with(b"\x89PNG") && picture.len() > 2000);
}
