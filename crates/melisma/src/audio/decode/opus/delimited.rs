//! Packets that tell where they end (RFC 6716, appendix B), as all streams of a packet but the last
//! have them.

/// Takes one packet off the front of `bytes`, writes it to `packet` without its own length, and
/// returns what follows it. `None` if the packet is cut off.
pub(super) fn take<'a>(bytes: &'a [u8], packet: &mut Vec<u8>) -> Option<&'a [u8]> {
    let mut rest = bytes;
    let toc = byte(&mut rest)?;
    // Bytes of the frames but the last one, frames of the last one's length, and padding.
    let (mut n_others, mut n_alike, mut padding) = (0, 1, 0);
    match toc & 3 {
        0 => {}
        1 => n_alike = 2,
        2 => n_others = len(&mut rest)?,
        _ => {
            let count = byte(&mut rest)?;
            let n_frames = usize::from(count & 0x3f);
            if count & 0x40 != 0 {
                loop {
                    let more = byte(&mut rest)?;
                    padding += usize::from(more.min(254));
                    if more < 255 {
                        break;
                    }
                }
            }
            match count & 0x80 != 0 {
                true => {
                    for _ in 1..n_frames {
                        n_others += len(&mut rest)?;
                    }
                }
                false => n_alike = n_frames,
            }
        }
    }
    let head = bytes.len() - rest.len();
    let n_last = len(&mut rest)?;
    let n_body = n_others + n_alike * n_last + padding;
    let body = rest.get(..n_body)?;
    packet.clear();
    packet.extend_from_slice(&bytes[..head]);
    packet.extend_from_slice(body);
    Some(&rest[n_body..])
}

fn byte(rest: &mut &[u8]) -> Option<u8> {
    let (&first, others) = rest.split_first()?;
    *rest = others;
    Some(first)
}

/// Reads a length of one or two bytes.
fn len(rest: &mut &[u8]) -> Option<usize> {
    let first = usize::from(byte(rest)?);
    Some(if first < 252 { first } else { first + 4 * usize::from(byte(rest)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_lose_their_own_length_only() {
        // One frame; two alike; two of their own lengths; three alike, padded; three of their own.
        let cases: [(&[u8], &[u8]); 5] = [
            (&[0, 2, 7, 8], &[0, 7, 8]),
            (&[1, 1, 7, 8], &[1, 7, 8]),
            (&[2, 1, 2, 7, 8, 9], &[2, 1, 7, 8, 9]),
            (&[3, 0x43, 2, 1, 7, 8, 9, 0, 0], &[3, 0x43, 2, 7, 8, 9, 0, 0]),
            (&[3, 0x83, 0, 2, 1, 7, 8, 9], &[3, 0x83, 0, 2, 7, 8, 9]),
        ];
        for (delimited, plain) in cases {
            let mut packet = vec![99];
            let both = [delimited, &[5, 6]].concat();
            assert_eq!(take(&both, &mut packet), Some(&[5, 6][..]));
            assert_eq!(packet, plain);
            for cut in 0..delimited.len() {
                assert_eq!(take(&delimited[..cut], &mut packet), None);
            }
        }
        let long = [&[0, 253, 1][..], &[3; 257], &[9]].concat();
        assert_eq!(take(&long, &mut Vec::new()), Some(&[9][..]));
    }
}
