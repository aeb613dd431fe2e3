use serde_json::json;

use super::*;
use crate::{DType, Remedy};

fn layout(n_rows: u64) -> Layout {
    let columns = vec![
        Column::flat("path", ColumnType::Text(11)),
        Column::flat("file_index", DType::I64),
        Column::flat("valid_frames", DType::I32),
        Column::flat("status", DType::U8),
        Column::flat("checksum", DType::U64),
        Column { name: "mel".to_owned(), element: DType::F16.into(), shape: vec![3, 5], len: None },
    ];
    let attributes = json!({ "format": "melisma-dataset", "config": "{\"a\":\"ü\"}", "sample_rate": 16_000 });
    Layout { n_rows, columns, attributes: attributes.as_object().unwrap().clone() }
}

#[test]
fn every_kind_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, name) in [(Kind::Hdf5, "a.h5"), (Kind::Safetensors, "a.safetensors"), (Kind::Npy, "a")] {
        for n_rows in [0, 1, 7] {
            let path = folder.path().join(name);
            let store = Store::create(&path, kind, layout(n_rows)).unwrap();
            for row in 0..n_rows {
                for (column, described) in layout(n_rows).columns.iter().enumerate() {
                    let bytes: Vec<u8> = (0..described.row_bytes()).map(|i| (i as u64 + row * 7 + 1) as u8).collect();
                    store.write(column, row, &bytes).unwrap();
                }
            }
            store.sync().unwrap();
            Store::reopen(&path, kind, layout(n_rows)).unwrap();
            assert!(Store::reopen(&path, kind, layout(n_rows + 1)).is_err());
            let back = Store::open(&path).unwrap();
            assert_eq!(back.layout.n_rows, n_rows, "{kind:?}");
            assert_eq!(back.layout.text("config"), Some("{\"a\":\"ü\"}"));
            for column in &layout(n_rows).columns {
                let place = back.layout.column(&column.name).unwrap();
                assert_eq!(&back.layout.columns[place], column, "{kind:?}");
                for row in 0..n_rows {
                    let mut bytes = vec![0; column.row_bytes()];
                    back.read(place, row, &mut bytes).unwrap();
                    assert!(bytes.iter().enumerate().all(|(i, &byte)| byte == (i as u64 + row * 7 + 1) as u8));
                }
            }
        }
    }
}

#[test]
fn hdf5_headers_survive_any_cut_and_any_changed_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    Store::create(&path, Kind::Hdf5, layout(2)).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let header_len = 1400.min(whole.len());
    for len in (0..header_len).chain([whole.len() - 1]) {
        std::fs::write(&path, &whole[..len]).unwrap();
        assert!(Store::open(&path).is_err(), "cut at {len}");
    }
    for at in 0..header_len {
        let mut changed = whole.clone();
        changed[at] ^= 0x41;
        std::fs::write(&path, &changed).unwrap();
        // Flips in bytes that a checksum covers are rejected; the rest is padding between the
        // columns.
        let _ = Store::open(&path);
    }
}

#[test]
fn columns_are_aligned() {
    let (_, places) = hdf5::lay_out(Path::new("a.h5"), &layout(7));
    assert!(places.iter().take(5).all(|place| place.offset % 64 == 0));
    assert_eq!(places[5].offset % 4096, 0);
}

#[test]
fn kinds_follow_the_name() {
    assert_eq!(Kind::choose(None, Path::new("a.h5")).unwrap(), Kind::Hdf5);
    assert_eq!(Kind::choose(Some("npy"), Path::new("a.h5")).unwrap(), Kind::Npy);
    assert!(Kind::choose(None, Path::new("a.zip")).is_err());
    assert_eq!(Kind::choose(Some("npy"), Path::new("rows.npy")).unwrap(), Kind::Npy);
    let error = Kind::choose(None, Path::new("in/rows.npy")).unwrap_err();
    assert!(error.to_string().contains("in/rows.npy: a dataset is a folder of .npy files"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.to_string().contains("in/rows")), "{error}");
}

#[test]
fn an_error_names_ten_damaged_rows() {
    let mut found = verify::Verified::default();
    (0..3).for_each(|row| found.damage(row, format!("{row}.wav").as_bytes()));
    let expected = "3 rows damaged, the first is row 0, of 0.wav; row 1, of 1.wav; row 2, of 2.wav";
    assert_eq!(found.check().unwrap_err().to_string(), expected);
    (3..12).for_each(|row| found.damage(row, b""));
    assert!(found.check().unwrap_err().to_string().ends_with("; row 9; and 2 more"));
    // Columns that the plan determines are repaired as well.
    for plan_matches in [None, Some(true), Some(false)] {
        found.plan_matches = plan_matches;
        assert_eq!(Remedy::of(&found.check().unwrap_err()), [Remedy::RepairRows]);
    }
    let changed = verify::Verified { plan_matches: Some(false), ..verify::Verified::default() };
    assert_eq!(Remedy::of(&changed.check().unwrap_err()), [Remedy::StartOver]);
}
