//! Blocks of Matroska: the packets of a track at one time.

/// The packets of a block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block<'a> {
    /// The time after that of the cluster, in ticks.
    pub time: i16,
    pub packets: Vec<&'a [u8]>,
}

impl<'a> Block<'a> {
    /// Reads a block from behind the number of its track; `None` if it contradicts itself.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (&[high, low, flags], mut rest) = bytes.split_first_chunk::<3>()?;
        let time = i16::from_be_bytes([high, low]);
        let lacing = flags >> 1 & 3;
        if lacing == 0 {
            return Some(Self { time, packets: vec![rest] });
        }
        let n_packets = 1 + usize::from(byte(&mut rest)?);
        let mut lens: Vec<usize> = Vec::new();
        match lacing {
            1 => {
                for _ in 1..n_packets {
                    lens.push(sum(&mut rest)?);
                }
            }
            2 if rest.len() % n_packets == 0 => lens = vec![rest.len() / n_packets; n_packets - 1],
            2 => return None,
            _ => {
                for _ in 1..n_packets {
                    let (number, width) = number(&mut rest)?;
                    let len = match lens.last() {
                        None => i64::try_from(number).ok()?,
                        // A difference: the middle of the numbers of its width is 0.
                        Some(&last) => last as i64 + number as i64 - ((1 << (7 * width - 1)) - 1),
                    };
                    lens.push(usize::try_from(len).ok()?);
                }
            }
        }
        let mut packets = Vec::with_capacity(n_packets);
        for len in lens {
            let (packet, others) = rest.split_at_checked(len)?;
            packets.push(packet);
            rest = others;
        }
        packets.push(rest);
        Some(Self { time, packets })
    }
}

fn byte(rest: &mut &[u8]) -> Option<u8> {
    let (&first, others) = rest.split_first()?;
    *rest = others;
    Some(first)
}

/// Reads a length as a sum of bytes, all but the last of them 255.
fn sum(rest: &mut &[u8]) -> Option<usize> {
    let mut len = 0;
    loop {
        let more = byte(rest)?;
        len += usize::from(more);
        if more < 255 {
            return Some(len);
        }
    }
}

/// Reads a number whose first bits tell its width, and returns both.
fn number(rest: &mut &[u8]) -> Option<(u64, u32)> {
    let width = Some(rest.first()?.leading_zeros() + 1).filter(|&width| width <= 8)?;
    let (bytes, others) = rest.split_at_checked(width as usize)?;
    *rest = others;
    let raw = bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
    Some((raw & ((1 << (7 * width)) - 1), width))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
        Block::parse(bytes).map(|block| block.packets.into_iter().map(<[u8]>::to_vec).collect())
    }

    #[test]
    fn every_lacing_is_read() {
        assert_eq!(Block::parse(&[0xff, 0xfe, 0x80, 7, 8]).unwrap(), Block { time: -2, packets: vec![&[7, 8]] });
        let three = vec![vec![1], vec![2, 2, 2], vec![4]];
        assert_eq!(packets(&[0, 0, 2, 2, 1, 3, 1, 2, 2, 2, 4]).unwrap(), three);
        assert_eq!(packets(&[0, 0, 4, 2, 7, 8, 9]).unwrap(), [vec![7], vec![8], vec![9]]);
        // The second is 2 longer than the first: 2 + 63.
        assert_eq!(packets(&[0, 0, 6, 2, 0x81, 0x80 | 65, 1, 2, 2, 2, 4]).unwrap(), three);
        let long = [&[0, 0, 2, 1, 255, 2][..], &[5; 257], &[6]].concat();
        assert_eq!(packets(&long).unwrap(), [vec![5; 257], vec![6]]);
    }

    #[test]
    fn blocks_that_contradict_themselves_are_refused() {
        for bytes in [
            &[0, 0][..],
            &[0, 0, 2],
            &[0, 0, 2, 1, 3, 7],
            &[0, 0, 4, 1, 7, 8, 9],
            &[0, 0, 6, 2, 0x81],
            &[0, 0, 6, 2, 0x81, 0x80, 1, 2],
            &[0, 0, 6, 1, 0],
            &[0, 0, 6, 1, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        ] {
            assert_eq!(packets(bytes), None, "{bytes:?}");
        }
    }
}
