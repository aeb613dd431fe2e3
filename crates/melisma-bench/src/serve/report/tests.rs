use std::time::Instant;

use melisma::runtime::MemoryTracker;
use melisma::runtime::device::Device;
use melisma::runtime::memory::Budget;

use super::super::BenchContext;
use super::super::block::Block;
use super::super::script::Split;
use super::super::subject::Subject;
use super::*;

fn script() -> Script {
    let device = Device::cpu().unwrap();
    let memory = MemoryTracker::new(Budget::unlimited());
    let context = BenchContext { device: &device, memory: &memory };
    Script::new(&Subject::builtin().unwrap(), context, Split::Token, Duration::from_secs(1)).unwrap()
}

/// Returns a block as the server writes it.
fn block(at: Instant, position: u64, n_samples: u32, flags: u32) -> Block {
    let head = [&position.to_le_bytes()[..], &n_samples.to_le_bytes(), &flags.to_le_bytes()].concat();
    Block::read(at, &head).unwrap()
}

#[test]
fn latency_counts_from_the_frame_that_a_block_needs() {
    let script = script();
    let begin = Instant::now();
    let frame_len = script.block_bytes() as u64 / 2;
    let sent: Vec<Instant> = (0..=script.n_frames).map(|frame| begin + script.period * frame as u32).collect();
    // The samples that are final after each frame, 5 ms later; the fifth block 200 ms late.
    let mut blocks = Vec::new();
    let mut position = 0;
    for (frame, &sent) in sent.iter().take(script.n_frames).enumerate() {
        let end = ((frame as u64 + 1) * frame_len).saturating_sub(script.lag());
        if end > position {
            let extra = if blocks.len() == 4 { 200 } else { 5 };
            let at = sent + Duration::from_millis(extra);
            blocks.push(block(at, position, (end - position) as u32, 0));
            position = end;
        }
    }
    let n = blocks.len();
    let outcome = Outcome { sent, first_token: Some(begin), blocks, refusals: Vec::new() };
    let refused = Outcome { refusals: vec![Duration::from_millis(2)], ..Outcome::default() };
    let report = Report::new(&script, &[outcome, refused]);
    assert_eq!(report.latencies.len(), n);
    let n_late = report.latencies.iter().filter(|latency| (**latency - 0.2).abs() < 1e-9).count();
    let n_early = report.latencies.iter().filter(|latency| (**latency - 0.005).abs() < 1e-9).count();
    assert_eq!((n_late, n_early), (1, n - 1));
    assert_eq!((report.n_kept, report.n_in_time, report.n_blocks), (n - 1, n - 1, n));
    let rows = report.rows("x", 0.001);
    let median = |name: &str| rows.iter().find(|row| row.name == name).unwrap().median;
    assert_eq!(median("x, accepted"), 50.0);
    assert!((median("x p50") - 5.0).abs() < 1e-6 && (median("x max") - 200.0).abs() < 1e-6);
    assert_eq!(report.refusals, [0.002]);
}

#[test]
fn a_gap_that_the_server_announces_is_not_in_time() {
    let (script, begin) = (script(), Instant::now());
    let at = begin + script.period * script.n_frames as u32;
    let sent = vec![begin; script.n_frames + 1];
    let blocks = vec![block(at, 0, 100, 0), block(at, 100, 100, 1)];
    let report = Report::new(&script, &[Outcome { sent, first_token: Some(begin), blocks, ..Outcome::default() }]);
    assert_eq!((report.n_in_time, report.n_blocks), (1, 2));
}

#[test]
fn the_last_block_is_due_a_frame_after_the_one_before_it() {
    let (script, begin) = (script(), Instant::now());
    let sent = vec![begin; script.n_frames + 1];
    let kept = |periods: f64, flags: u32| {
        let blocks = vec![block(begin + script.period.mul_f64(periods), 0, 100, flags)];
        let outcome = Outcome { sent: sent.clone(), first_token: Some(begin), blocks, ..Outcome::default() };
        Report::new(&script, &[outcome]).n_kept
    };
    assert_eq!((kept(0.9, 0), kept(1.1, 0)), (1, 0));
    assert_eq!((kept(1.9, 2), kept(2.1, 2)), (1, 0));
}
