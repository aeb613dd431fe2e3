use super::*;

/// All that passes, and the refusal, when the bytes come in pieces of `len`.
fn pass(bytes: &[u8], len: usize) -> (Vec<u8>, Option<(u16, &'static str)>) {
    let (mut gate, mut passed) = (Gate::default(), Vec::new());
    for piece in bytes.chunks(len) {
        gate.take(piece);
        let mut room = [0; 7];
        loop {
            let mut to = ReadBuf::new(&mut room);
            if gate.pass(&mut to) != Passed::Some {
                break;
            }
            passed.extend_from_slice(to.filled());
        }
    }
    (passed, gate.take_refusal().map(|failure| (failure.status.as_u16(), failure.code())))
}

fn refusal(bytes: &[u8]) -> Option<(u16, &'static str)> {
    let (passed, refusal) = pass(bytes, bytes.len());
    assert!(refusal.is_none() || passed.is_empty(), "half a refused head passed");
    refusal
}

#[test]
fn requests_pass_unchanged_however_they_are_cut() {
    let first = "\r\nPOST /v1/decode HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nGET /";
    let second = "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\n\r\n\r\r\n0\r\nx: y\r\n\r\n";
    let third = "GET / HTTP/1.0\nhost: b\n\n";
    let bytes = [first, second, third].concat();
    for len in 1..bytes.len() {
        let (passed, refusal) = pass(bytes.as_bytes(), len);
        assert_eq!((String::from_utf8(passed).unwrap(), refusal), (bytes.clone(), None), "by {len}");
        // The fault of a later request takes nothing from those before it.
        let (passed, refusal) = pass((bytes.clone() + "GET\r\n\r\n").as_bytes(), len);
        assert_eq!((passed, refusal), (bytes.clone().into_bytes(), Some((400, "broken_request"))), "by {len}");
    }
}

#[test]
fn half_a_head_waits() {
    let mut gate = Gate::default();
    gate.take(b"GET / HTTP/1.1\r\nhost: a\r\n");
    let mut room = [0; 64];
    assert_eq!(gate.pass(&mut ReadBuf::new(&mut room)), Passed::Nothing);
    assert!(!gate.is_between());
    gate.take(b"\r\n");
    let mut to = ReadBuf::new(&mut room);
    assert_eq!((gate.pass(&mut to), to.filled().len()), (Passed::Some, 27));
    assert!(gate.is_between());
}

#[test]
fn the_limits_of_a_head_are_exact() {
    let long = |len: usize| {
        let head = "GET / HTTP/1.1\r\nhost: a\r\nx: ";
        format!("{head}{}\r\n\r\n", "y".repeat(len - head.len() - 4)).into_bytes()
    };
    for len in [1, 1000, 1 << 20] {
        assert_eq!(pass(&long(MAX_HEAD_BYTES), len), (long(MAX_HEAD_BYTES), None));
        assert_eq!(pass(&long(MAX_HEAD_BYTES + 1), len), (vec![], Some((431, "large_head"))), "by {len}");
    }
    let (endless, many) =
        (vec![b'a'; MAX_HEAD_BYTES + 1], |n| format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(n)));
    assert_eq!(refusal(&endless), Some((431, "large_head")));
    assert_eq!(refusal(many(MAX_HEADERS).as_bytes()), None);
    assert_eq!(refusal(many(MAX_HEADERS + 1).as_bytes()), Some((431, "large_head")));
    assert_eq!(refusal(&b"\r\n".repeat(MAX_HEAD_BYTES)), Some((431, "large_head")));
}

#[test]
fn what_is_no_request_is_refused() {
    let broken = Some((400, "broken_request"));
    for bytes in
        [&[0xff; 64][..], b"\0", b"GET /\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/2.0\r\n\r\n", b"G(T /"]
    {
        assert_eq!(refusal(bytes), broken, "{bytes:?}");
    }
    let headers = |lines: &str| refusal(format!("POST / HTTP/1.1\r\n{lines}\r\n\r\n").as_bytes());
    for lines in [
        "content-length: 5\r\ncontent-length: 6",
        "content-length: 5, 5",
        "content-length: +5",
        "content-length: -1",
        "content-length: ",
        "content-length: 0x5",
        "content-length : 5",
        "x: a\r\n folded",
        "x: \0",
        "x",
    ] {
        assert_eq!(headers(lines), broken, "{lines:?}");
    }
    assert_eq!(headers("content-length: 5\r\ncontent-length: 5"), None);
    for coding in
        ["gzip, chunked", "xchunked", "identity", "chunked, chunked", "chunked\r\ntransfer-encoding: chunked", ""]
    {
        assert_eq!(headers(&format!("transfer-encoding: {coding}")), Some((501, "transfer_encoding")), "{coding:?}");
    }
    for length in [1 << 63, u64::MAX].map(|length| length.to_string()).into_iter().chain(["9".repeat(30)]) {
        assert_eq!(headers(&format!("content-length: {length}")), Some((413, "too_large")), "{length}");
    }
    assert_eq!(headers(&format!("content-length: {}", i64::MAX)), None);
    let old = refusal(b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n");
    assert_eq!(old, broken);
}

#[test]
fn a_broken_body_ends_the_connection_for_hyper() {
    let mut gate = Gate::default();
    gate.take(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nxy\r\n");
    let mut room = [0; 128];
    assert_eq!(gate.pass(&mut ReadBuf::new(&mut room)), Passed::Some);
    assert_eq!(gate.pass(&mut ReadBuf::new(&mut room)), Passed::End);
    assert_eq!(gate.take_refusal(), None);
}

#[test]
fn an_upgraded_connection_passes_everything() {
    let mut gate = Gate::default();
    gate.take(&[0x81, 0x80, 0]);
    gate.open();
    let mut room = [0; 8];
    let mut to = ReadBuf::new(&mut room);
    assert_eq!((gate.pass(&mut to), to.filled()), (Passed::Some, &[0x81, 0x80, 0][..]));
}

#[test]
fn what_is_left_of_a_request_can_be_discarded() {
    let mut gate = Gate::default();
    gate.take(b"POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\n12");
    let mut room = [0; 39];
    assert_eq!(gate.pass(&mut ReadBuf::new(&mut room)), Passed::Some);
    gate.discard(b"3456");
    assert!(!gate.is_between());
    gate.discard(b"789");
    assert!(gate.is_between());
    gate.discard(b"G");
    assert!(!gate.is_between(), "somebody sends more");
}
