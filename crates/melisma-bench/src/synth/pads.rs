//! The number of pads, and of voices of the other kinds, that play in real time.

use std::time::Duration;

use melisma::Result;
use melisma::synth::Instrument;
use melisma_kernels::device::ceiling;
use melisma_kernels::signal::voice::{Block, Control, TICK, Voice, Voices};
use melisma_kernels::{Budget, Cpu, Isa, Level};

use super::{Device, Plan, RATE, Row, beside, measure, of_times, pad, sound};

const N_PADS: usize = 4096;
const LEN: usize = 1920;

enum Way<'a> {
    Together,
    Singly,
    On(&'a melisma_kernels::Queue),
}

/// Measures seconds of voices per second, which is the number that plays in real time.
fn in_real_time(isa: Isa, voices: &[Voice], way: &Way<'_>, name: &str) -> Result<Row> {
    let mut pool = Voices::new(isa, voices.len(), 1);
    for voice in voices {
        pool.start(0, voice, 0, Control::default())?;
    }
    let controls = [Control::default(); LEN / TICK];
    let mut position = 0;
    let plan = Plan { warm_up: 2, least: 7, time: Duration::from_secs(2), most: 1000 };
    let mut outcome = Ok(());
    let measured = measure(plan, || {
        let block = Block { position, len: LEN, controls: &controls };
        match way {
            Way::Together => pool.render(block),
            Way::Singly => pool.render_singly(block),
            Way::On(queue) => outcome = pool.render_on(queue, block),
        }
        position += LEN as u64;
    });
    outcome?;
    Ok(measured.rate(name, "voice-s/s", voices.len() as f64 * LEN as f64 / f64::from(RATE)))
}

pub(super) fn rows() -> Result<Vec<Row>> {
    let pads: Vec<Voice> = (0..N_PADS).map(pad).collect();
    let mut rows = Vec::new();
    for isa in [Level::Avx2, Level::Avx512].into_iter().filter_map(Isa::new) {
        let name = format!("synth/pads 1t {}", isa.level().name());
        let singly = in_real_time(isa, &pads[..64], &Way::Singly, "")?.median;
        rows.push(beside(in_real_time(isa, &pads, &Way::Together, &name)?, "one voice at a time", singly));
    }
    let isa = Isa::best();
    let level = isa.level().name();
    rows.extend(on_two_threads(isa, &pads)?);
    for (name, instrument) in
        [("plucks", Instrument::Pluck), ("kicks", Instrument::Kick), ("swells", Instrument::Swell)]
    {
        // A pad's envelope, which does not end.
        let voice = |index: usize| Voice { envelope: pad(index).envelope, ..sound(instrument, index) };
        let voices: Vec<Voice> = (0..N_PADS).map(voice).collect();
        let singly = in_real_time(isa, &voices[..64], &Way::Singly, "")?.median;
        let row = in_real_time(isa, &voices, &Way::Together, &format!("synth/{name} 1t {level}"))?;
        rows.push(beside(row, "one voice at a time", singly));
    }
    Ok(rows)
}

/// Pads on two threads, and the gain of the second thread; the ceiling is its gain for
/// multiply-adds in registers.
fn on_two_threads(isa: Isa, pads: &[Voice]) -> Result<[Row; 2]> {
    const ROUNDS: usize = 3;
    let level = isa.level().name();
    let queue = Device::Cpu(Cpu { isa, threads: 2 }).queue(&Budget::unlimited())?;
    let name = format!("synth/pads 2t {level}");
    let (mut gains, mut rows) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let one = in_real_time(isa, pads, &Way::Together, "")?.median;
        let mut two = in_real_time(isa, pads, &Way::On(&queue), &name)?;
        let most = second_thread(isa);
        two.ceiling = Some(most * one);
        gains.push((two.median / one, most));
        rows.push(two);
    }
    // The median round, so that both rows are from the same time.
    let mut order: Vec<usize> = (0..ROUNDS).collect();
    order.sort_by(|&a, &b| gains[a].0.total_cmp(&gains[b].0));
    let middle = order[ROUNDS / 2];
    let (gain, most) = gains[middle];
    let mut row = Row::single(format!("synth/pads 2t by 1t {level}"), "x", gain);
    (row.ceiling, row.n) = (Some(most), ROUNDS as u64);
    Ok([rows.swap_remove(middle), row])
}

/// Returns the ratio of multiply-adds on two threads to one, each the median of several runs.
fn second_thread(isa: Isa) -> f64 {
    let median = || of_times((0..9).map(|_| ceiling::flops(isa)).collect()).median;
    let alone = median();
    let together: f64 = std::thread::scope(|scope| {
        let other = scope.spawn(median);
        median() + other.join().unwrap_or(0.0)
    });
    together / alone
}
