mod bulk;

use super::reference::{Life, render as reference};
use super::sound::N_PARTIALS;
use super::{
    Block, Control, Drum, Envelope, Filter, Noise, Partials, Segment, Source, TICK, Tone, UNIT, Voice, Voices,
};
use crate::random::SplitMix64;
use crate::{Budget, Cpu, Device, Isa};

const RATE: f64 = 48_000.0;

fn increment(hz: f64) -> u64 {
    (hz / RATE * 2f64.powi(64)) as u64
}

fn envelope() -> Envelope {
    Envelope {
        attack: Segment { samples: 517, curve: 2.0 },
        decay: Segment { samples: 1301, curve: 4.0 },
        sustain: 0.6,
        release: Segment { samples: 977, curve: 6.0 },
    }
}

fn filter(random: &mut SplitMix64) -> Filter {
    Filter {
        octaves: -5.0 + 2.0 * random.signed(),
        sweep: 2.0 * random.signed(),
        rate: 0.001,
        lfo_increment: 300_000,
        lfo_phase: random.bits() as u32,
        lfo_depth: 0.3,
        damping: 1.2 + 0.5 * random.signed(),
    }
}

/// Returns a voice of kind `index` with random parameters.
fn voice(index: usize, random: &mut SplitMix64) -> Voice {
    let hz = 27.5 * f64::from(random.signed().abs() * 7.0).exp2();
    let source = match index % 4 {
        0 => Source::Tone(Tone {
            increment: increment(hz),
            saw_increment: increment(1.003 * hz),
            sine: 0.5,
            saw: 0.5,
            filter: filter(random),
        }),
        1 => Source::Partials(Partials {
            increment: increment(hz),
            levels: std::array::from_fn(|k| 0.3 / (k + 1) as f32),
            rates: std::array::from_fn(|k| 0.0002 * (k + 1) as f32),
        }),
        2 => Source::Drum(Drum { increment: 3_579_139, drop: 3.0, rate: 0.001 }),
        _ => Source::Noise(Noise { seed: random.bits() as u32, filter: filter(random), mix: [0.5, -0.5, 0.3] }),
    };
    let gain = [random.signed().abs() * 0.3, random.signed().abs() * 0.3];
    Voice { source, envelope: envelope(), gain }
}

/// Starts and releases voices at their times and renders in blocks of the given lengths,
/// repeatedly.
struct Piece {
    voices: Vec<(Voice, Life)>,
    len: usize,
}

impl Piece {
    fn new(n_voices: usize, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let voices = (0..n_voices).map(|index| {
            let onset = random.bits() % 2000;
            let release = random.bits().is_multiple_of(2).then(|| onset + random.bits() % 4000);
            let life = Life { onset, release, control: Control { brightness: 0.2, motion: 0.8 } };
            (voice(index, &mut random), life)
        });
        Self { voices: voices.collect(), len: 8000 }
    }

    fn render(&self, isa: Isa, lengths: &[usize], mut block: impl FnMut(&mut Voices, Block<'_>)) -> [Vec<i64>; 2] {
        let mut pool = Voices::new(isa, self.voices.len(), 1);
        let mut slots = vec![None; self.voices.len()];
        let mut out = [Vec::new(), Vec::new()];
        let mut lengths = lengths.iter().copied().cycle();
        let mut block_end = 0;
        while out[0].len() < self.len {
            let now = out[0].len();
            for ((voice, life), slot) in self.voices.iter().zip(&mut slots) {
                if life.onset == now as u64 {
                    *slot = pool.start(0, voice, now as u64, life.control).unwrap();
                }
                if let Some(slot) = *slot
                    && life.release == Some(now as u64)
                {
                    pool.release(slot, now as u64);
                }
            }
            if block_end <= now {
                block_end = now + lengths.next().unwrap();
            }
            let moments = self.voices.iter().flat_map(|(_, life)| [Some(life.onset), life.release]).flatten();
            let event = moments.map(|at| at as usize).filter(|&at| at > now).min().unwrap_or(usize::MAX);
            let len = block_end.min(event).min(self.len).min(now + Voices::LONGEST) - now;
            let controls = vec![self.voices[0].1.control; len / TICK + 2];
            block(&mut pool, Block { position: now as u64, len, controls: &controls });
            out[0].extend(&pool.bus(0).left);
            out[1].extend(&pool.bus(0).right);
        }
        out
    }
}

/// Returns the peak of the difference in dB below full scale.
fn difference(found: &[Vec<i64>; 2], expected: &[Vec<f64>; 2]) -> f64 {
    let pairs = found.iter().zip(expected).flat_map(|(found, expected)| found.iter().zip(expected));
    let peak = pairs.map(|(&found, &expected)| (found as f64 / f64::from(UNIT) - expected).abs()).fold(0.0, f64::max);
    20.0 * peak.max(1e-12).log10()
}

#[test]
fn every_kind_matches_the_reference() {
    for isa in Isa::available() {
        for index in 0..24 {
            let mut random = SplitMix64::new(index as u64);
            let life = Life { onset: 5 + 13 * index as u64, release: Some(2500), control: Control::default() };
            let piece = Piece { voices: vec![(voice(index, &mut random), life)], len: 5000 };
            let found = piece.render(isa, &[4096], Voices::render);
            let expected = reference(&piece.voices[0].0, life, piece.len);
            let difference = difference(&found, &expected);
            assert!(difference < -108.0, "{isa:?}, voice {index}: {difference:.1} dBFS");
        }
    }
}

#[test]
fn mixes_have_the_same_bits_however_they_are_made() {
    let budget = Budget::unlimited();
    for (n_voices, seed) in [(1, 1), (7, 2), (100, 3)] {
        let piece = Piece::new(n_voices, seed);
        let expected = piece.render(Isa::best(), &[4096], Voices::render);
        assert!(expected[0].iter().any(|&sample| sample != 0));
        for isa in Isa::available() {
            let level = isa.level().name();
            for lengths in [&[480][..], &[1, 7, 64, 31, 33, 1000], &[128]] {
                assert!(piece.render(isa, lengths, Voices::render) == expected, "{level}, blocks of {lengths:?}");
            }
            assert!(piece.render(isa, &[441], Voices::render_singly) == expected, "{level}, one at a time");
            for threads in [1, 2, 3] {
                let queue = Device::Cpu(Cpu { isa, threads }).queue(&budget).unwrap();
                let render = |voices: &mut Voices, block: Block<'_>| voices.render_on(&queue, block).unwrap();
                assert!(piece.render(isa, &[480], render) == expected, "{level}, {threads} threads");
            }
        }
    }
}

#[test]
fn a_batch_is_the_sum_of_its_voices() {
    let piece = Piece::new(37, 4);
    let together = piece.render(Isa::best(), &[480], Voices::render);
    let mut sum = [vec![0; piece.len], vec![0; piece.len]];
    for &voice in &piece.voices {
        let alone = Piece { voices: vec![voice], len: piece.len }.render(Isa::best(), &[4096], Voices::render);
        for (sum, alone) in sum.iter_mut().zip(&alone) {
            sum.iter_mut().zip(alone).for_each(|(sum, sample)| *sum += sample);
        }
    }
    assert!(together == sum);
}

#[test]
fn lanes_are_given_back() {
    let mut random = SplitMix64::new(9);
    let mut pool = Voices::new(Isa::best(), 16, 1);
    let control = Control::default();
    let mut now = 0;
    for round in 0..50 {
        let slots: Vec<_> =
            (0..16).flat_map(|_| pool.start(0, &voice(0, &mut random), now, control).unwrap()).collect();
        assert_eq!(pool.n_sounding(), 16, "round {round}");
        for &slot in &slots {
            pool.end(slot, now, Segment { samples: 96, curve: 1.0 });
        }
        pool.render(Block { position: now, len: 97, controls: &[control; 5] });
        now += 97;
        assert_eq!(pool.n_sounding(), 0);
        assert!(slots.iter().all(|&slot| !pool.is_sounding(slot)));
        pool.release(slots[0], now);
    }
}

#[test]
fn a_second_release_changes_nothing() {
    let voice = voice(0, &mut SplitMix64::new(4));
    let control = Control::default();
    let play = |n_releases: u64| {
        let mut pool = Voices::new(Isa::best(), 1, 1);
        let slot = pool.start(0, &voice, 0, control).unwrap().unwrap();
        let mut out: Vec<i64> = Vec::new();
        for block in 0..5 {
            let now = 300 * block;
            if (1..=n_releases).contains(&block) {
                pool.release(slot, now);
            }
            pool.render(Block { position: now, len: 300, controls: &[control; 300 / TICK + 2] });
            out.extend(&pool.bus(0).left);
        }
        (out, pool.n_sounding())
    };
    let once = play(1);
    assert_eq!(once.1, 0, "300 + 977 samples are over");
    assert_eq!(play(3), once);
}

#[test]
fn figures_outside_of_their_ranges_are_refused() {
    let mut random = SplitMix64::new(3);
    let mut pool = Voices::new(Isa::best(), 16, 1);
    for gain in [f32::NAN, -0.1, 1.1, f32::INFINITY] {
        let refused = pool.start(0, &Voice { gain: [gain, 0.0], ..voice(0, &mut random) }, 0, Control::default());
        assert!(refused.unwrap_err().to_string().contains("gain"));
    }
    assert_eq!(pool.n_sounding(), 0);
}

fn bare_tone(hz: f64, sine: f32, saw: f32) -> Voice {
    let filter =
        Filter { octaves: 0.0, sweep: 0.0, rate: 0.0, lfo_increment: 0, lfo_phase: 0, lfo_depth: 0.0, damping: 1.4 };
    let source = Source::Tone(Tone { increment: increment(hz), saw_increment: increment(hz), sine, saw, filter });
    let quick = Segment { samples: 1, curve: 1.0 };
    Voice { source, envelope: Envelope { attack: quick, decay: quick, sustain: 1.0, release: quick }, gain: [0.5, 0.5] }
}

/// A sine after many hours, against its least-squares fit at the exact frequency.
#[test]
fn sines_are_clean_at_any_hour() {
    let len = 4800;
    for hz in [27.5, 440.0, 1760.0, 4186.0] {
        for hour in [0.0, 24.0] {
            let mut pool = Voices::new(Isa::best(), 1, 1);
            let start = (hour * 3600.0 * RATE) as u64;
            let skip = 4096;
            pool.start(0, &bare_tone(hz, 1.0, 0.0), 0, Control::default()).unwrap();
            pool.jump(start);
            let controls = [Control::default(); 160];
            pool.render(Block { position: start, len: skip, controls: &controls });
            let mut found = Vec::new();
            for first in [start + skip as u64, start + skip as u64 + 2400] {
                pool.render(Block { position: first, len: 2400, controls: &controls });
                found.extend(pool.bus(0).left.iter().map(|&sample| sample as f64 / f64::from(UNIT)));
            }
            let angle = |index: usize| {
                let turns = (increment(hz) as u128 * (start as u128 + skip as u128 + index as u128)) as u64;
                turns as f64 * 2f64.powi(-64) * std::f64::consts::TAU
            };
            let noise = residual(&found, len, angle);
            let power: f64 = found.iter().map(|x| x * x).sum();
            let snr = 10.0 * (power / noise).log10();
            assert!(snr > 120.0, "{hz} Hz in hour {hour}: {snr:.1} dB");
        }
    }
}

/// Returns the rest after subtracting the best sine and cosine.
fn residual(found: &[f64], len: usize, angle: impl Fn(usize) -> f64) -> f64 {
    let (mut cc, mut ss, mut cs, mut xc, mut xs) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (index, x) in found.iter().enumerate().take(len) {
        let (s, c) = angle(index).sin_cos();
        (cc, ss, cs, xc, xs) = (cc + c * c, ss + s * s, cs + c * s, xc + x * c, xs + x * s);
    }
    let det = cc * ss - cs * cs;
    let (a, b) = ((xc * ss - xs * cs) / det, (xs * cc - xc * cs) / det);
    let error = |(index, x): (usize, &f64)| {
        let (s, c) = angle(index).sin_cos();
        (x - a * c - b * s).powi(2)
    };
    found.iter().enumerate().take(len).map(error).sum()
}

/// Aliases are what remains of a saw after subtracting its harmonics.
#[test]
fn saws_alias_little() {
    let len = 8192;
    let mut worst = f64::NEG_INFINITY;
    for key in (21..=108).step_by(3) {
        // An odd number of periods: harmonics fall on bins, aliases between them.
        let n_periods = ((440.0 * ((f64::from(key) - 69.0) / 12.0).exp2() / RATE * len as f64) as u64) | 1;
        let hz = n_periods as f64 * RATE / len as f64;
        let mut pool = Voices::new(Isa::best(), 1, 1);
        pool.start(0, &bare_tone(hz, 0.0, 1.0), 0, Control::default()).unwrap();
        let mut found = Vec::new();
        for block in 0..3 {
            pool.render(Block { position: block * 4096, len: 4096, controls: &[Control::default(); 128] });
            found.extend(pool.bus(0).left.iter().map(|&sample| sample as f64 / f64::from(UNIT)));
        }
        let period = &found[found.len() - len..];
        let total: f64 = period.iter().map(|x| x * x).sum::<f64>() / len as f64;
        let power = |bin: usize| {
            let (mut re, mut im) = (0.0, 0.0);
            for (index, x) in period.iter().enumerate() {
                let angle = (bin * index % len) as f64 / len as f64 * std::f64::consts::TAU;
                (re, im) = (re + x * angle.cos(), im + x * angle.sin());
            }
            2.0 * (re * re + im * im) / (len * len) as f64
        };
        let n_harmonics = (len as u64 / 2 / n_periods) as usize;
        let harmonic: f64 = (1..=n_harmonics).map(|h| power(h * n_periods as usize)).sum();
        let mean = power(0) / 2.0;
        let alias = (total - harmonic - mean).max(1e-18) / power(n_periods as usize);
        worst = worst.max(10.0 * alias.log10());
    }
    assert!(worst < -85.0, "{worst:.1} dBc");
}

#[test]
fn partials_above_the_limit_are_silent() {
    let mut random = SplitMix64::new(1);
    let Voice { envelope, gain, .. } = voice(1, &mut random);
    let levels = std::array::from_fn(|k| if k == 0 { 0.0 } else { 1.0 });
    let source = Source::Partials(Partials { increment: increment(12_000.0), levels, rates: [0.0; N_PARTIALS] });
    let life = Life { onset: 0, release: None, control: Control::default() };
    let piece = Piece { voices: vec![(Voice { source, envelope, gain }, life)], len: 500 };
    let found = piece.render(Isa::best(), &[480], Voices::render);
    assert!(found.iter().flatten().all(|&sample| sample == 0));
}

/// The fourth partial of 5 kHz sounds and that of 6 kHz does not; after the bend it sounds again.
#[test]
fn partials_come_back_from_a_bend() {
    let mut random = SplitMix64::new(1);
    let levels = std::array::from_fn(|k| if k == 3 { 1.0 } else { 0.0 });
    let source = Source::Partials(Partials { increment: increment(5000.0), levels, rates: [0.0; N_PARTIALS] });
    let voice = Voice { source, gain: [0.5, 0.5], ..voice(1, &mut random) };
    for isa in Isa::available() {
        let mut pool = Voices::new(isa, 1, 1);
        let slot = pool.start(0, &voice, 0, Control::default()).unwrap().unwrap();
        let power = |pool: &mut Voices, position: u64| {
            pool.render(Block { position, len: 2400, controls: &[Control::default(); 76] });
            // The envelope has settled after the first block, and levels settle within two ticks.
            let samples = pool.bus(0).left[2 * TICK..].iter();
            samples.map(|&sample| (sample as f64 / f64::from(UNIT)).powi(2)).sum::<f64>()
        };
        power(&mut pool, 0);
        let straight = power(&mut pool, 2400);
        pool.retune(slot, [increment(6000.0), 0], 4800);
        assert_eq!(power(&mut pool, 4800), 0.0);
        pool.retune(slot, [increment(5000.0), 0], 7200);
        let back = power(&mut pool, 7200);
        assert!(straight > 1.0 && (back / straight - 1.0).abs() < 1e-3, "{isa:?}: {straight}, then {back}");
    }
}
