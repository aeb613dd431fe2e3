use proptest::prelude::*;

use super::*;

const LIMIT: usize = 70_000;

fn read_all(bytes: &[u8], piece: usize) -> Result<Vec<Message>, Violation> {
    let mut reader = Reader::new(Writer::Client, LIMIT);
    let mut messages = Vec::new();
    for piece in bytes.chunks(piece.max(1)) {
        reader.feed(piece);
        while let Some(message) = reader.message()? {
            messages.push(message);
        }
    }
    Ok(messages)
}

fn violation(bytes: &[u8]) -> u16 {
    read_all(bytes, 1).unwrap_err().code
}

/// A frame of a client with a mask of zeros.
fn raw(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first, 0x80 | payload.len() as u8, 0, 0, 0, 0];
    frame.extend_from_slice(payload);
    frame
}

#[test]
fn the_examples_of_the_rfc() {
    let hello = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
    assert_eq!(read_all(&hello, 1), Ok(vec![Message::Text("Hello".into())]));
    let mask = Some([0x37, 0xfa, 0x21, 0x3d]);
    assert_eq!(Message::Text("Hello".into()).frame(mask), hello);
    assert_eq!(Message::Text("Hello".into()).frame(None), [0x81, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f]);
}

#[test]
fn fragments_may_have_control_frames_between_them() {
    let bytes = [raw(0x01, b"He"), raw(0x89, b"?"), raw(0x00, b"ll"), raw(0x80, b"o")].concat();
    for piece in [1, 3, 100] {
        assert_eq!(read_all(&bytes, piece), Ok(vec![Message::Ping(b"?".to_vec()), Message::Text("Hello".into())]));
    }
}

#[test]
fn breaches_have_their_codes() {
    assert_eq!(violation(&[0x81, 0x05]), 1002, "no mask");
    assert_eq!(violation(&raw(0xc1, b"x")), 1002, "a reserved bit");
    assert_eq!(violation(&raw(0x83, b"x")), 1002, "an unknown opcode");
    assert_eq!(violation(&raw(0x80, b"x")), 1002, "a continuation of nothing");
    assert_eq!(violation(&[raw(0x01, b"x"), raw(0x81, b"y")].concat()), 1002, "two messages at once");
    assert_eq!(violation(&raw(0x09, b"x")), 1002, "a fragmented ping");
    assert_eq!(violation(&[0x89, 0xfe, 0, 200]), 1002, "a long ping");
    assert_eq!(violation(&[0x82, 0xfe, 0, 5]), 1002, "a length in two bytes that fits in one");
    assert_eq!(violation(&raw(0x88, b"x")), 1002, "half a code");
    assert_eq!(violation(&raw(0x88, &1005u16.to_be_bytes())), 1002, "a code that is not sent");
    assert_eq!(violation(&raw(0x81, &[0xff])), 1007, "not UTF-8");
    assert_eq!(violation(&[0x82, 0xff, 0, 0, 0, 0, 0, 2, 0, 0]), 1009, "too long, before its payload");
    assert_eq!(violation(&[0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), 1009, "endless");
    let mut growing = raw(0x02, &[0; 100]);
    (0..LIMIT / 100).for_each(|_| growing.extend(raw(0x00, &[0; 100])));
    assert_eq!(violation(&growing), 1009, "too long in fragments");
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        ".{0,300}".prop_map(Message::Text),
        prop::collection::vec(any::<u8>(), 0..LIMIT).prop_map(Message::Binary),
        prop::collection::vec(any::<u8>(), 0..126).prop_map(Message::Ping),
        Just(Message::Close(Some((1000, "bye".into())))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn messages_arrive_as_they_were_sent(messages in prop::collection::vec(message(), 0..4), piece in 1usize..5000) {
        let mask = Some([1, 2, 3, 250]);
        let bytes: Vec<u8> = messages.iter().flat_map(|message| message.frame(mask)).collect();
        prop_assert_eq!(read_all(&bytes, piece), Ok(messages));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let whole = read_all(&bytes, 600);
        prop_assert_eq!(whole.is_ok(), read_all(&bytes, 1).is_ok());
    }
}
