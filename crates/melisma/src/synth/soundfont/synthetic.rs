//! A tiny SoundFont for tests and benches: a soft tone on every program, a click on the drums.

/// Samples of the tone, which is looped.
const TONE: usize = 64;
/// Samples of the click.
const CLICK: usize = 2_000;
/// Zeros that the format asks for after each sample.
const PAD: usize = 46;
const RATE: u32 = 32_000;

/// Returns the bytes of an `.sf2` file of a few KB.
pub fn bytes() -> Vec<u8> {
    bytes_with(0.0)
}

/// Returns the bytes of a file whose tone has an offset, of an amplitude of 9,000.
pub(super) fn bytes_with(offset: f64) -> Vec<u8> {
    let (tone, click) = (0..TONE as u32, (TONE + PAD) as u32..(TONE + PAD + CLICK) as u32);
    let phase = |n: usize| std::f64::consts::TAU * n as f64 / TONE as f64;
    let mut samples: Vec<i16> =
        (0..TONE).map(|n| (offset + 9_000.0 * phase(n).sin() + 3_000.0 * (3.0 * phase(n)).sin()) as i16).collect();
    samples.resize(TONE + PAD, 0);
    let mut noise = 1u32;
    samples.extend((0..CLICK).map(|n| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let fade = 1.0 - n as f64 / CLICK as f64;
        (f64::from((noise >> 16) as i16) * 0.3 * fade * fade) as i16
    }));
    samples.resize(samples.len() + PAD, 0);
    let info = [chunk(b"ifil", &[2, 0, 1, 0]), chunk(b"isng", b"EMU8000\0"), chunk(b"INAM", b"synthetic\0")];
    let smpl: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    let parameters = [
        chunk(b"phdr", &[preset("tone", [0, 0, 0]), preset("click", [0, 128, 1]), preset("EOP", [0, 0, 2])].concat()),
        chunk(b"pbag", &words(&[0, 0, 1, 0, 2, 0])),
        chunk(b"pmod", &[0; 10]),
        // Instrument (41).
        chunk(b"pgen", &words(&[41, 0, 41, 1, 0, 0])),
        chunk(b"inst", &[instrument("tone", 0), instrument("click", 1), instrument("EOI", 2)].concat()),
        chunk(b"ibag", &words(&[0, 0, 3, 0, 4, 0])),
        chunk(b"imod", &[0; 10]),
        // Release (38) of half a second, loop (54), sample (53).
        chunk(b"igen", &words(&[38, (-1_200i16) as u16, 54, 1, 53, 0, 53, 1, 0, 0])),
        chunk(b"shdr", &[sample("tone", &tone), sample("click", &click), sample("EOS", &(0..0))].concat()),
    ];
    let lists =
        [list(b"INFO", &info.concat()), list(b"sdta", &chunk(b"smpl", &smpl)), list(b"pdta", &parameters.concat())];
    chunk(b"RIFF", &[b"sfbk".to_vec(), lists.concat()].concat())
}

fn chunk(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
    [&name[..], &(body.len() as u32).to_le_bytes(), body].concat()
}

fn list(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
    chunk(b"LIST", &[&name[..], body].concat())
}

fn words(values: &[u16]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn name(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(20, 0);
    bytes
}

/// Program, bank, and the first of its zones.
fn preset(text: &str, numbers: [u16; 3]) -> Vec<u8> {
    [name(text), words(&numbers), vec![0; 12]].concat()
}

fn instrument(text: &str, zone: u16) -> Vec<u8> {
    [name(text), words(&[zone])].concat()
}

fn sample(text: &str, range: &std::ops::Range<u32>) -> Vec<u8> {
    // The loop is the whole sample; the key of its pitch is 60.
    let numbers = [range.start, range.end, range.start, range.end, RATE];
    let numbers: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    [name(text), numbers, vec![60, 0], words(&[0, 1])].concat()
}
