//! Hours of music: memory stays where it is, and peaks stay below the ceiling. The memory is that of the process, so each
//! test has one.

use melisma::runtime::device::Device;
use melisma::runtime::memory::Budget;
use melisma::synth::{
    Action, BulkConfig, BulkRenderer, Chord, EngineConfig, Instrument, Kick, Melody, Parameter, Phrase, Stream, Swell,
};

use crate::{gpu, process};

/// Bytes of this process in memory; 0 where the system does not say.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

#[test]
#[ignore = "extended: 3,000,000 blocks, 8 hours of sound, some four minutes"]
fn eight_hours_of_blocks() {
    process::alone("synth_soak::eight_hours_of_blocks", || {
        let (mut stream, remote) = Stream::new(EngineConfig::default().with_max_voices(16)).unwrap();
        let mut first = 0;
        let mut peak = 0f32;
        for block in 0..3_000_000u64 {
            // A note every quarter of a second, held for two; a parameter now and then.
            if block % 25 == 0 {
                let instrument = Instrument::ALL[(block / 25) as usize % 7];
                let key = 40 + (block / 25 * 7 % 48) as u8;
                remote
                    .send(Action::Start { note: block, instrument, channel: 0, key, velocity: 0.6, pan: 0.0 })
                    .expect("a place in the inbox");
            }
            if block % 25 == 0 && block >= 200 {
                remote.send(Action::Release { note: block - 200 }).expect("a place in the inbox");
            }
            if block % 1000 == 0 {
                let parameter = Parameter::ALL[(block / 1000) as usize % 5];
                let value = 0.3 + (block % 7000) as f32 / 10_000.0;
                remote.send(Action::Set { parameter, value }).expect("a place in the inbox");
            }
            let played = stream.next_block();
            peak = played.left.iter().fold(peak, |peak, sample| peak.max(sample.abs()));
            assert!(peak <= 0.8913, "block {block}: {peak}");
            if block == 100_000 {
                first = resident_bytes();
            }
            if block % 300_000 == 0 {
                println!("block {block}: {} bytes, {} voices", resident_bytes(), stream.engine().active());
            }
        }
        let growth = resident_bytes().saturating_sub(first);
        println!("growth {growth} bytes, peak {peak}");
        assert!(growth <= 1 << 20, "{growth} bytes");
        assert_eq!(stream.lost(), 0);
    });
}

#[test]
#[ignore = "extended: 1,000 phrases on a GPU"]
fn a_thousand_phrases_on_cuda() {
    let Some(device) = gpu::find() else { return };
    process::alone("synth_soak::a_thousand_phrases_on_cuda", || {
        let Device::Cuda(cuda) = &device else { return };
        let budget = Budget::unlimited();
        let config = BulkConfig::new(1, 30.0, 48_000);
        let mut renderer = BulkRenderer::new(&device, &budget, config).unwrap();
        let phrase = |index: u8| Phrase {
            seconds: 30.0,
            chords: (0..8)
                .map(|i| Chord {
                    onset: 3.75 * f64::from(i),
                    duration: 3.75,
                    keys: vec![40 + index % 12, 52 + index % 12, 59, 64],
                    velocity: 0.6,
                })
                .collect(),
            melody: (0..64)
                .map(|i| Melody {
                    onset: 0.46 * f64::from(i),
                    duration: 0.4,
                    key: 69 + (i as u8).wrapping_add(index) % 12,
                    velocity: 0.5,
                })
                .collect(),
            kicks: (0..32).map(|i| Kick { onset: 0.9 * f64::from(i), velocity: 0.9 }).collect(),
            swells: (0..4).map(|i| Swell { onset: 7.5 * f64::from(i), duration: 7.0, velocity: 0.5 }).collect(),
        };
        let used = || cuda.memory().map(|(free, total)| total - free).unwrap_or(0);
        let (mut host, mut held) = (0, 0);
        for index in 0..1000 {
            let sound = renderer.render(&[phrase(index as u8)]).unwrap();
            assert!(sound.iter().all(|sample| sample.is_finite()));
            if index % 100 == 0 {
                println!("phrase {index}: {} bytes on the host, {} on the device", resident_bytes(), used());
            }
            if index == 100 {
                (host, held) = (resident_bytes(), used());
            }
        }
        let growth = [resident_bytes().saturating_sub(host), used().saturating_sub(held)];
        println!("growth {growth:?} bytes");
        assert!(growth.iter().all(|&bytes| bytes <= 1 << 20), "{growth:?} bytes");
    });
}
