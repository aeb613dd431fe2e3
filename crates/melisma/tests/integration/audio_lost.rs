//! Opus in WebM whose packets were lost on the way.

use std::fs;

use crate::audio_matroska::{CLUSTER, open};
use crate::audio_opus::{pages, piped};
use crate::repository;

/// Returns the packets of an Ogg file; the first two are headers.
fn packets(name: &str) -> Vec<Vec<u8>> {
    let bytes = fs::read(repository::path("golden/audio").join(format!("{name}.opus"))).unwrap();
    let (mut packets, mut packet) = (Vec::new(), Vec::new());
    for page in pages(&bytes) {
        let (lens, mut body) = page[27..].split_at(page[26].into());
        for &len in lens {
            let (part, rest) = body.split_at(len.into());
            packet.extend_from_slice(part);
            body = rest;
            if len < 255 {
                packets.push(std::mem::take(&mut packet));
            }
        }
    }
    packets
}

fn element(id: &[u8], body: &[u8]) -> Vec<u8> {
    // A length of eight bytes begins with a one.
    let len = ((1_u64 << 56) | body.len() as u64).to_be_bytes();
    [id, &len[..], body].concat()
}

/// Returns a WebM file with a cluster for each packet, at times in milliseconds.
fn webm<'a>(head: &[u8], packets: impl Iterator<Item = (u64, &'a [u8])>) -> Vec<u8> {
    let audio = [element(&[0xb5], &48_000_f64.to_be_bytes()), element(&[0x9f], &head[9..10])].concat();
    let track = [
        element(&[0xd7], &[1]),
        element(&[0x83], &[2]),
        element(&[0x86], b"A_OPUS"),
        element(&[0x63, 0xa2], head),
        element(&[0xe1], &audio),
    ];
    let mut body = element(&[0x16, 0x54, 0xae, 0x6b], &element(&[0xae], &track.concat()));
    for (time, packet) in packets {
        let block = [&[0x81, 0, 0, 0x80][..], packet].concat();
        let cluster = [element(&[0xe7], &time.to_be_bytes()), element(&[0xa3], &block)].concat();
        body.extend(element(&CLUSTER, &cluster));
    }
    let header = element(&[0x1a, 0x45, 0xdf, 0xa3], &element(&[0x42, 0x82], b"webm"));
    [header, element(&[0x18, 0x53, 0x80, 0x67], &body)].concat()
}

fn power(samples: &[f32]) -> f32 {
    samples.iter().map(|sample| sample * sample).sum()
}

#[test]
fn lost_packets_are_concealed_and_time_is_kept() {
    // The samples of a packet; six channels are four streams.
    for (name, n) in [("celt_2.5ms", 120), ("hybrid_20ms", 960), ("silk_medium_40ms", 1920), ("six", 960)] {
        let all = packets(name);
        let (head, sent) = (&all[0], &all[2..]);
        let lost = sent.len() / 3..sent.len() / 3 + 2;
        let blocks = || sent.iter().enumerate().map(move |(index, packet)| ((index * n / 48) as u64, &packet[..]));
        let arrived = blocks().enumerate().filter(|(index, _)| !lost.contains(index)).map(|(_, block)| block);
        let (expected, file) = (open(&webm(head, blocks())).unwrap(), webm(head, arrived));
        let found = open(&file).unwrap();
        assert_eq!(found.len(), expected.len(), "{name}");
        assert!(piped(&file).unwrap() == found, "{name} from a pipe");
        let pre_skip = usize::from(u16::from_le_bytes([head[10], head[11]]));
        let [start, end] = [lost.start, lost.end].map(|index| index * n - pre_skip);
        assert!(found[..start] == expected[..start], "{name}");
        let (concealed, sent) = (power(&found[start..end]), power(&expected[start..end]));
        assert!(concealed > sent / 4.0, "{name}: {concealed} in place of {sent}");
        // The file of six channels ends before what follows the loss is as it was.
        let rest = end + 2 * (found.len() - end) / 3;
        let error: Vec<f32> = found[rest..].iter().zip(&expected[rest..]).map(|(a, b)| a - b).collect();
        assert!(name == "six" || power(&error) < power(&expected[rest..]) / 50.0, "{name}: {}", power(&error));
    }
}

#[test]
fn packets_that_come_late_are_not_lost() {
    let all = packets("hybrid_20ms");
    let blocks = |late: u64| {
        let time = move |index: usize| 20 * index as u64 + if index % 3 == 1 { late } else { 0 };
        webm(&all[0], all[2..].iter().enumerate().map(|(index, packet)| (time(index), &packet[..])))
    };
    let in_time = open(&blocks(0)).unwrap();
    assert!(open(&blocks(18)).unwrap() == in_time);
    assert_eq!(open(&blocks(19)).unwrap().len(), in_time.len() + 960);
}
