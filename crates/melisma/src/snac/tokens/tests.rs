use super::*;
use crate::ErrorKind;
use crate::snac::noise::philox4x32;
use crate::snac::{Codes, Model};

fn config() -> Config {
    Config::snac_24khz()
}

fn read_in(pieces: impl IntoIterator<Item = impl AsRef<[u8]>>, format: Format) -> (Vec<i32>, Ledger) {
    let mut reader = Reader::new(format, &config()).unwrap();
    let mut codes = Codes::empty(&config());
    for piece in pieces {
        codes.append(reader.push(piece.as_ref()).unwrap().frames()).unwrap();
    }
    codes.append(reader.finish().unwrap().frames()).unwrap();
    (codes.frames().as_slice().to_vec(), reader.ledger())
}

fn tag(slot: i64, code: i64) -> String {
    format!("<custom_token_{}>", 10 + 4096 * slot + code)
}

fn frame(codes: [i64; 7]) -> String {
    (0..).zip(codes).map(|(slot, code)| tag(slot, code)).collect()
}

#[test]
fn code_0_is_accepted_and_4096_refused() {
    let (frames, ledger) = read_in([frame([0; 7]), frame([4095; 7])], Format::Orpheus);
    assert_eq!(frames, [[0; 7], [4095; 7]].concat());
    assert_eq!(ledger, Ledger { accepted: 14, frames: 2, ..Ledger::default() });
    // In the last slot 4096 is beyond the range; in a list of codes it is beyond the codebook.
    let (_, ledger) =
        read_in([tag(6, 4096), "<custom_token_9>".into(), "<custom_token_28682>".into()], Format::Orpheus);
    assert_eq!((ledger.accepted, ledger.rejected), (0, 3));
    let (frames, ledger) = read_in(["[[1, 2], [1, 2, 4096, 4], [1, 2, 3, 4, 5, 6, 7, -1]]"], Format::Codes);
    assert_eq!(frames, [1, 1, 1, 2, 2, 3, 4, 2, 1, 5, 6, 4, 7, 4]);
    assert_eq!((ledger.accepted, ledger.rejected, ledger.concealed_frames), (12, 2, 1));
}

#[test]
fn range_of_tokens_and_ids() {
    for (text, format, accepted) in [
        ("<custom_token_10>", Format::Orpheus, 1),
        ("<custom_token_28681>", Format::Orpheus, 1),
        ("<custom_token_28682>", Format::Orpheus, 0),
        ("128266", Format::Ids, 1),
        ("156937", Format::Ids, 1),
        ("156938", Format::Ids, 0),
        ("128265", Format::Ids, 0),
        ("10", Format::Ids, 0),
        ("-128266", Format::Ids, 0),
        ("99999999999999999999999999999999", Format::Ids, 0),
        ("word", Format::Ids, 0),
        ("<custom_token_>", Format::Orpheus, 0),
        ("<custom_token_1x>", Format::Orpheus, 0),
    ] {
        let (_, ledger) = read_in([text], format);
        assert_eq!((ledger.accepted, ledger.seen()), (accepted, 1), "{text}");
    }
}

#[test]
fn garbage_between_tokens_is_passed_over() {
    let text = format!("data: {{\"x\": 1}}\n<<custom>{}</s><custom_token_\u{e9}", frame([1, 2, 3, 4, 5, 6, 7]));
    let (frames, ledger) = read_in([text.as_bytes()], Format::Auto);
    assert_eq!(frames, [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!((ledger.accepted, ledger.rejected), (7, 0));
    let pieces: Vec<[u8; 1]> = text.bytes().map(|byte| [byte]).collect();
    assert_eq!(read_in(pieces, Format::Auto), (frames, ledger));
}

/// A step back is forgotten once a token fits.
#[test]
fn two_steps_back_apart_are_two_foreign_tokens() {
    let text: String = [0, 1, 2, 3, 1, 4, 2, 5, 6].iter().map(|&slot| tag(slot, slot)).collect();
    let (frames, ledger) = read_in([text], Format::Orpheus);
    assert_eq!(frames, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(ledger, Ledger { accepted: 7, rejected: 2, resyncs: 2, frames: 1, ..Ledger::default() });
}

#[test]
fn a_lost_token_costs_one_concealed_frame() {
    let whole = frame([1, 2, 3, 4, 5, 6, 7]);
    for lost in 0..7 {
        let rest: String = (0..7).filter(|&slot| slot != lost).map(|slot| tag(slot, 9)).collect();
        let (frames, ledger) = read_in([&whole, &rest, &whole], Format::Orpheus);
        let mut expected = vec![1, 2, 3, 4, 5, 6, 7, 9, 9, 9, 9, 9, 9, 9, 1, 2, 3, 4, 5, 6, 7];
        expected[7 + lost as usize] = 1 + lost as i32;
        assert_eq!(frames, expected, "without slot {lost}");
        let expected =
            Ledger { accepted: 20, rejected: 0, resyncs: 1, frames: 3, concealed_frames: 1, dropped_frames: 0 };
        assert_eq!(ledger, expected, "without slot {lost}");
    }
}

#[test]
fn fewer_than_four_tokens_are_dropped() {
    let whole = frame([1; 7]);
    for held in 1..7 {
        let cut: String = (0..held).map(|slot| tag(slot, 9)).collect();
        for pieces in [vec![&whole, &cut, &whole], vec![&whole, &cut]] {
            let (_, ledger) = read_in(&pieces, Format::Orpheus);
            let concealed = u64::from(held >= 4);
            assert_eq!((ledger.concealed_frames, ledger.dropped_frames), (concealed, 1 - concealed), "{held} tokens");
            assert_eq!(ledger.frames, pieces.len() as u64 - 1 + concealed);
        }
    }
    let first: String = (0..6).map(|slot| tag(slot, 9)).collect();
    let (frames, ledger) = read_in([first], Format::Orpheus);
    assert_eq!((frames.len(), ledger.dropped_frames), (0, 1), "nothing to complete the first frame from");
}

#[test]
fn repeated_and_swapped_tokens_are_rejected() {
    let whole = frame([1; 7]);
    let order = |slots: &[i64]| slots.iter().map(|&slot| tag(slot, 9)).collect::<String>();
    let (frames, ledger) = read_in([order(&[0, 1, 2, 2, 3, 4, 5, 6])], Format::Orpheus);
    assert_eq!((frames, ledger.rejected, ledger.resyncs), (vec![9; 7], 1, 1));
    let (frames, ledger) = read_in([whole.clone(), order(&[0, 1, 3, 2, 4, 5, 6])], Format::Orpheus);
    assert_eq!((&frames[7..], ledger.rejected, ledger.concealed_frames), (&[9, 9, 1, 9, 9, 9, 9][..], 1, 1));
    // The end of one frame and the start of the next are lost.
    let (frames, ledger) = read_in([whole, order(&[0, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6])], Format::Orpheus);
    assert_eq!(frames[7..], [9, 9, 9, 9, 9, 1, 1, 9, 9, 9, 9, 9, 9, 9]);
    assert_eq!((ledger.accepted, ledger.rejected, ledger.concealed_frames), (18, 0, 2));
}

#[test]
fn auto_finds_each_format() {
    for (text, expected) in [
        (frame([1; 7]), Format::Orpheus),
        ("128266 132363\n".into(), Format::Ids),
        ("[128266, 132363]".into(), Format::Ids),
        ("[[1],[1,2],[1,2,3,4]]".into(), Format::Codes),
        (" [ [1],[1,2],[1,2,3,4]]".into(), Format::Codes),
        ("{\"model\": \"ab\", \"codes\": [[1],[1,2],[1,2,3,4]]}".into(), Format::Codes),
        ("no tokens at all".into(), Format::Orpheus),
        (String::new(), Format::Orpheus),
    ] {
        for step in [1, 7, 1000] {
            let mut reader = Reader::new(Format::Auto, &config()).unwrap();
            for piece in text.as_bytes().chunks(step) {
                reader.push(piece).unwrap();
            }
            reader.finish().unwrap();
            assert_eq!(reader.format(), expected, "{text}");
        }
    }
}

#[test]
fn written_codes_come_back() {
    let model = Model::random(Config { encoder_dim: 2, decoder_dim: 16, ..config() }, 0).unwrap();
    let frames: Vec<i32> = (0..35).map(|i| i * 117 % 4096).collect();
    let codes = Codes::from_frames(model.config(), &frames).unwrap();
    let stamped = Some(model.hash());
    for (bytes, stamp) in [
        (to_orpheus(&model, &codes).unwrap().into_bytes(), stamped),
        (to_ids(&model, &codes).unwrap().into_bytes(), None),
        (to_json(&model, &codes).into_bytes(), stamped),
        (to_npy(&model, &codes), None),
        (to_safetensors(&model, &codes).unwrap(), stamped),
    ] {
        let mut reader = Reader::new(Format::Auto, model.config()).unwrap();
        let mut back = Codes::empty(model.config());
        for piece in bytes.chunks(11) {
            back.append(reader.push(piece).unwrap().frames()).unwrap();
        }
        back.append(reader.finish().unwrap().frames()).unwrap();
        assert_eq!((&back, reader.stamp()), (&codes, stamp));
        let expected = if stamp.is_some() { Origin::Same } else { Origin::Unknown };
        assert_eq!(reader.origin(&model).unwrap(), expected);
        let other = Model::random(model.config().clone(), 1).unwrap();
        assert_eq!(reader.origin(&other).is_err(), stamp.is_some());
        assert_eq!(reader.ledger(), Ledger { accepted: 35, frames: 5, ..Ledger::default() });
        for len in 0..bytes.len() {
            let mut reader = Reader::new(Format::Auto, model.config()).unwrap();
            if let Ok((now, rest)) = reader.push(&bytes[..len]).and_then(|now| Ok((now, reader.finish()?))) {
                assert!(now.n_frames() + rest.n_frames() <= codes.n_frames());
            }
        }
    }
}

#[test]
fn malformed_lists_are_refused() {
    let refused = |bytes: &[u8]| {
        let mut reader = Reader::new(Format::Codes, &config()).unwrap();
        reader.push(bytes).unwrap();
        reader.finish().unwrap_err()
    };
    for (text, expected) in [
        ("[[1], [1, 2]]", "2 levels of codes, the model has 3"),
        ("[[1], [1], [1, 2, 3, 4]]", "level 1 has 1 codes, 1 frames need 2 each"),
        ("[[1.5], [1, 2], [1, 2, 3, 4]]", "codes in JSON: invalid type"),
        ("[[99999999999999999999], [1, 2], [1, 2, 3, 4]]", "codes in JSON"),
        ("{\"x\": 1}", "missing field `codes`"),
        ("", "neither JSON nor npy"),
        ("\u{1}\0\0\0\0\0\0\0{", "neither JSON nor npy"),
    ] {
        let error = refused(text.as_bytes());
        assert!(error.to_string().contains(expected), "{error}, expected {expected}");
    }
    assert_eq!(refused(b"[[1], [1, 2").kind(), ErrorKind::Truncated);
    assert_eq!(refused(b"\x93NUMPY\x01\x00\xff\xff{").kind(), ErrorKind::Truncated);
    let header = "{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999, 7), }";
    let mut npy = b"\x93NUMPY\x01\x00".to_vec();
    npy.extend_from_slice(&(header.len() as u16).to_le_bytes());
    npy.extend_from_slice(header.as_bytes());
    assert_eq!(refused(&npy).kind(), ErrorKind::Truncated);
    let four_levels = Reader::new(Format::Orpheus, &Config::snac_44khz()).unwrap_err();
    assert_eq!(four_levels.kind(), ErrorKind::Unsupported);
}

#[test]
fn an_endless_stream_without_a_frame_takes_no_memory() {
    for (piece, format) in [
        ("<custom_token_".repeat(100), Format::Auto),
        ("<custom_token_1".to_owned() + &"1".repeat(5000), Format::Orpheus),
        ("x".repeat(5000), Format::Auto),
        ("7".repeat(5000), Format::Ids),
        (tag(0, 5).repeat(50), Format::Auto),
        (tag(6, 5).repeat(50), Format::Auto),
    ] {
        let mut reader = Reader::new(format, &config()).unwrap();
        for _ in 0..500 {
            assert_eq!(reader.push(piece.as_bytes()).unwrap().n_frames(), 0);
        }
        match &reader.input {
            Input::Undecided(seen) => assert!(seen.len() <= detect::MAX_LEN),
            Input::Text(scanner) => assert!(scanner.held_len() <= 64),
            Input::File(_) => panic!("{piece:.20} is not a list"),
        }
        assert_eq!(reader.finish().unwrap().n_frames(), 0);
    }
}

/// Random sequences of tokens, most of them nearly in order, some cut, doubled, foreign or out of range.
/// Ten days of sound: the reader holds what one piece of text has, however many came before.
#[test]
#[ignore = "extended: run by xtask check --extended"]
fn ten_million_frames_take_no_memory() {
    let mut reader = Reader::new(Format::Orpheus, &config()).unwrap();
    let piece = (0..100).map(|i| frame([i; 7])).collect::<String>();
    for _ in 0..100_000 {
        assert_eq!(reader.push(piece.as_bytes()).unwrap().n_frames(), 100);
        assert!(matches!(&reader.input, Input::Text(scanner) if scanner.held_len() <= 64));
    }
    assert_eq!(reader.finish().unwrap().n_frames(), 0);
    assert_eq!(reader.ledger(), Ledger { accepted: 70_000_000, frames: 10_000_000, ..Ledger::default() });
}

fn ledgers_add_up(n_sequences: u32) {
    for sequence in 0..n_sequences {
        let mut n_drawn = 0;
        let mut draw = |below: u32| {
            n_drawn += 1;
            philox4x32([n_drawn, 0, 0, 0], [sequence, 0])[0] % below
        };
        let n_tokens = draw(60);
        let mut text = Vec::new();
        let mut slot = draw(7);
        for _ in 0..n_tokens {
            let number = match draw(24) {
                0 => i64::from(draw(40_000)) - 5_000,
                1 => [9, 10, 28_681, 28_682, i64::MAX][draw(5) as usize],
                2 => {
                    slot = draw(7);
                    i64::from(10 + 4096 * slot + draw(4097))
                }
                _ => i64::from(10 + 4096 * slot + draw(4096)),
            };
            text.extend_from_slice(format!("<custom_token_{number}>").as_bytes());
            if draw(12) == 0 {
                text.extend_from_slice([&b"garbage <"[..], b"\xff\x00", b">", b"<custom_token"][draw(4) as usize]);
            }
            slot = (slot + 1) % 7;
        }
        let cut = draw(text.len() as u32 + 1) as usize;
        let (frames, ledger) = read_in([&text[..cut], &text[cut..]], Format::Orpheus);
        assert_eq!(ledger.seen(), u64::from(n_tokens), "sequence {sequence}: {ledger:?}");
        assert_eq!(frames.len() as u64, 7 * ledger.frames, "sequence {sequence}: {ledger:?}");
        assert!(frames.iter().all(|code| (0..4096).contains(code)));
        let n_frames = ledger.frames + ledger.dropped_frames;
        let whole = ledger.frames - ledger.concealed_frames;
        let least = 7 * whole + 4 * ledger.concealed_frames + ledger.dropped_frames;
        assert!((least..=7 * n_frames).contains(&ledger.accepted), "sequence {sequence}: {ledger:?}");
    }
}

#[test]
fn twenty_thousand_ledgers_add_up() {
    ledgers_add_up(20_000);
}

#[test]
#[ignore = "extended: run by xtask check --extended"]
fn a_million_ledgers_add_up() {
    ledgers_add_up(1_000_000);
}

#[test]
fn random_bytes_never_panic() {
    for seed in 0..3000 {
        let n = philox4x32([0, 1, 0, 0], [seed, 0])[0] % 300;
        let alphabet = b"<>custom_token_0123456789 []{},\"codes:-\n\x93NUMPY\x00\xff";
        let bytes: Vec<u8> =
            (0..n).map(|i| alphabet[philox4x32([i, 2, 0, 0], [seed, 0])[0] as usize % alphabet.len()]).collect();
        for format in [Format::Auto, Format::Orpheus, Format::Ids, Format::Codes] {
            let mut reader = Reader::new(format, &config()).unwrap();
            let _ = reader.push(&bytes).and_then(|_| reader.finish());
        }
    }
}

#[test]
fn a_long_first_piece_is_read_to_its_end() {
    let frame: String = (0..7).map(|slot| format!("<custom_token_{}>", 10 + 4096 * slot)).collect();
    let mut reader = Reader::new(Format::Auto, &Config::snac_24khz()).unwrap();
    assert_eq!(reader.push(frame.repeat(1000).as_bytes()).unwrap().n_frames(), 1000);
}

#[test]
#[cfg(feature = "builtin")]
fn the_built_in_model_doubts_what_does_not_name_its_model() {
    let model = Model::mini24().unwrap();
    let codes = Codes::from_frames(model.config(), &[1, 2, 3, 4, 5, 6, 7]).unwrap();
    let is_doubtful = |bytes: &[u8], model: &Model| {
        let mut reader = Reader::new(Format::Auto, model.config()).unwrap();
        reader.push(bytes).unwrap();
        reader.finish().unwrap();
        reader.is_doubtful(model)
    };
    let list = b"[[1], [2, 5], [3, 4, 6, 7]]";
    let bare = [frame([1, 2, 3, 4, 5, 6, 7]).into_bytes(), to_ids(&model, &codes).unwrap().into_bytes()];
    for bytes in bare.iter().map(Vec::as_slice).chain([&list[..], &to_npy(&model, &codes)]) {
        assert!(is_doubtful(bytes, &model), "{}", String::from_utf8_lossy(bytes));
    }
    for bytes in
        [to_orpheus(&model, &codes).unwrap(), to_json(&model, &codes), "no tokens".into(), "[[], [], []]".into()]
    {
        assert!(!is_doubtful(bytes.as_bytes(), &model), "{bytes}");
    }
    let other = Model::random(Config { encoder_dim: 2, decoder_dim: 16, ..config() }, 0).unwrap();
    assert!(!is_doubtful(list, &other), "a codec that was named");
}
