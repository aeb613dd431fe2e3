use super::*;
use crate::ErrorKind;

fn flac(n: usize) -> Vec<u8> {
    use crate::audio::{Clip, flac};
    let samples = (0..n).map(|i| ((i * i) as f32 * 1e-6).sin()).collect();
    flac::encode(&Clip::mono(16_000, samples), flac::Depth::S16).unwrap()
}

fn check(bytes: &[u8]) -> Result<Option<u64>> {
    let mut window = Window::new(bytes);
    window.pass_id3().unwrap();
    flac::count_samples(&mut window)
}

#[test]
fn a_flipped_bit_names_its_frame() {
    let good = flac(10_000);
    assert_eq!(check(&good).unwrap(), Some(10_000));
    let id3 = b"ID3\x04\0\0\0\0\0\x05hello";
    assert_eq!(check(&[&id3[..], &good].concat()).unwrap(), Some(10_000));
    assert_eq!(check(&[&good[..], b"TAG and a title"].concat()).unwrap(), Some(10_000));
    assert_eq!(check(&[&good[..], &[0; 99]].concat()).unwrap(), Some(10_000));
    let middle = 42 + (good.len() - 42) / 2;
    let mut bad = good.clone();
    bad[middle] ^= 4;
    let error = check(&bad).unwrap_err();
    assert!(error.to_string().contains("frame at sample 4096"), "{error}");
    assert_eq!(check(&good[..good.len() - 1]).unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(check(&[&good[..], b"more"].concat()).is_err());
}

#[test]
fn missing_frames_are_noticed() {
    let good = flac(3 * 4096);
    let starts: Vec<usize> = (42..good.len() - 1).filter(|&at| good[at..].starts_with(&[0xff, 0xf8, 0xc5])).collect();
    assert_eq!(starts.len(), 3);
    let without = |from: usize, to: usize| check(&[&good[..from], &good[to..]].concat()).unwrap_err();
    assert_eq!(without(starts[1], starts[2]).to_string(), "a FLAC frame is missing at sample 4096");
    assert_eq!(without(starts[2], good.len()).to_string(), "12288 samples are declared, the file ends at sample 8192");
    assert_eq!(without(starts[0], starts[1]).to_string(), "a FLAC frame is missing at sample 0");
}

#[test]
fn a_gap_between_mp3_frames_is_an_error() {
    // 128 kbit/s at 44.1 kHz: frames of 417 bytes.
    let frame = || [&[0xff, 0xfb, 0x90, 0x00][..], &[7; 413]].concat();
    let walk = |bytes: &[u8]| mpeg::whole_mp3(&mut Window::new(bytes));
    let good = [frame(), frame(), frame()].concat();
    walk(&good).unwrap();
    walk(&[&[0; 20], &good[..], b"TAG"].concat()).unwrap();
    let error = walk(&[&good[..], b"x", &good[..]].concat()).unwrap_err();
    assert_eq!(error.to_string(), "no frame begins at byte 1251, at sample 3456");
    assert_eq!(walk(&good[..1000]).unwrap_err().to_string(), "the file ends within the frame at sample 2304");
    let mut bad = good;
    bad[417] ^= 0x80;
    assert!(walk(&bad).unwrap_err().to_string().contains("at sample 1152"));
}

#[test]
fn mp3_frames_are_counted_against_the_header() {
    let frame = |body: &[u8]| [&[0xff, 0xfb, 0x90, 0x00][..], body, &vec![0; 413 - body.len()]].concat();
    let info = |n: u32| frame(&[&[0; 32][..], b"Info", &1u32.to_be_bytes(), &n.to_be_bytes()].concat());
    let walk = |bytes: &[u8]| mpeg::whole_mp3(&mut Window::new(bytes));
    let sound = [frame(&[1]), frame(&[2])].concat();
    walk(&[info(2), sound.clone()].concat()).unwrap();
    assert_eq!(walk(&[info(5), sound.clone()].concat()).unwrap_err().kind(), ErrorKind::Truncated);
    assert_eq!(walk(&[info(1), sound].concat()).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn declared_bytes_say_whether_an_mp3_frame_is_missing() {
    let frame = |body: &[u8]| [&[0xff, 0xfb, 0x90, 0x00][..], body, &vec![0; 413 - body.len()]].concat();
    let walk = |n_frames: u32, n_bytes: u32| {
        let counts = [3, n_frames, n_bytes].map(u32::to_be_bytes).concat();
        let info = frame(&[&[0; 32][..], b"Info", &counts].concat());
        mpeg::whole_mp3(&mut Window::new(&[info, frame(&[1]), frame(&[2])].concat()[..]))
    };
    // Some writers count the frame of the header, some do not.
    for (n_frames, n_bytes) in [(2, 3 * 417), (2, 2 * 417), (3, 3 * 417), (3, 2 * 417)] {
        walk(n_frames, n_bytes).unwrap();
    }
    let error = walk(3, 4 * 417).unwrap_err();
    assert_eq!((error.kind(), &*error.to_string()), (ErrorKind::Truncated, "3 MP3 frames are declared, 2 are there"));
}

/// Returns Ogg pages of one packet each, with these granule positions.
fn ogg(granules: &[i64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, granule) in granules.iter().enumerate() {
        let flags = 2 * u8::from(number == 0) + 4 * u8::from(number + 1 == granules.len());
        let mut page =
            [b"OggS\0", &[flags][..], &granule.to_le_bytes(), &[7; 4], &(number as u32).to_le_bytes()].concat();
        page.extend([0, 0, 0, 0, 1, 2, 8, 9]);
        let crc = ogg::checksum(&page).to_le_bytes();
        page[22..26].copy_from_slice(&crc);
        bytes.extend(page);
    }
    bytes
}

#[test]
fn ogg_clocks_do_not_go_back() {
    let check = |granules: &[i64]| ogg::count_samples(&mut Window::new(&ogg(granules)[..]));
    assert_eq!(check(&[0, 0, 500, 500, 900]).unwrap(), Some(900));
    let twice = [ogg(&[0, 500]), ogg(&[0, 300])].concat();
    assert_eq!(ogg::count_samples(&mut Window::new(&twice[..])).unwrap(), Some(800));
    for (granules, back) in [([0, 500, 499], 499), ([0, 500, 0], 0), ([0, 500, -1], -1), ([0, 500, i64::MIN], i64::MIN)]
    {
        let error = check(&granules).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!(error.to_string(), format!("the clock of an Ogg page goes back to {back}, after sample 500"));
    }
    // No packet ends on the second page: its only segment is a full one.
    let mut pages = ogg(&[0, -1, 900]);
    let page = pages.len() / 3;
    pages[page + 27] = 255;
    pages.splice(2 * page..2 * page, [1; 253]);
    pages[page + 22..page + 26].fill(0);
    let crc = ogg::checksum(&pages[page..2 * page + 253]).to_le_bytes();
    pages[page + 22..page + 26].copy_from_slice(&crc);
    assert_eq!(ogg::count_samples(&mut Window::new(&pages[..])).unwrap(), Some(900));
}

#[test]
fn adts_frames_follow_each_other() {
    // 16 kHz, mono, 20 bytes.
    let frame = [&[0xff, 0xf1, 0x60, 0x40, 0x02, 0x9f, 0xfc][..], &[9; 13]].concat();
    let good = [&frame[..], &frame, &frame].concat();
    let walk = |bytes: &[u8]| mpeg::whole_adts(&mut Window::new(bytes));
    walk(&good).unwrap();
    let mut bad = good.clone();
    bad[20] ^= 1;
    assert_eq!(walk(&bad).unwrap_err().to_string(), "no frame begins at byte 20, at sample 1024");
    assert_eq!(walk(&good[..50]).unwrap_err().kind(), ErrorKind::Truncated);
}

#[test]
fn blocks_that_are_numbered_by_samples_are_read() {
    use crate::audio::flac::{crc8, crc16_next};
    let good = flac(3 * 4096);
    let mut starts: Vec<usize> =
        (42..good.len() - 1).filter(|&at| good[at..].starts_with(&[0xff, 0xf8, 0xc5])).collect();
    starts.push(good.len());
    // Samples 0, 4096 and 8192, as UTF-8-style numbers.
    let numbers: [&[u8]; 3] = [&[0], &[0xe1, 0x80, 0x80], &[0xe2, 0x80, 0x80]];
    let mut varied = good[..42].to_vec();
    // The smallest block is smaller than the largest.
    varied[8..10].copy_from_slice(&16u16.to_be_bytes());
    for (frame, number) in starts.windows(2).zip(numbers) {
        let old = &good[frame[0]..frame[1]];
        let mut head = vec![0xff, 0xf9, old[2], old[3]];
        head.extend(number);
        head.push(crc8(&head));
        let new = [&head[..], &old[6..old.len() - 2]].concat();
        varied.extend(&new);
        varied.extend(new.iter().fold(0, |crc, &byte| crc16_next(crc, byte)).to_be_bytes());
    }
    assert_eq!(check(&varied).unwrap(), Some(3 * 4096));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &varied).unwrap();
    assert_eq!(
        crate::audio::Source::open(file.path(), crate::audio::Target::new(16_000)).unwrap().facts().n_samples,
        3 * 4096
    );
    let mut bad = varied.clone();
    bad[starts[1] + 3] ^= 1;
    assert!(check(&bad).is_err());
}
