use melisma::synth::Style;

use super::*;

fn options() -> PlaybackOptions {
    PlaybackOptions { sample_rate: 48_000, lead: Lead::new(10 * BLOCK) }
}

fn music(seed: u64) -> Endless {
    Endless::new(Style::named("focus").unwrap(), seed, EngineConfig::default()).unwrap().0
}

#[test]
fn listeners_hear_the_endless_piece_at_real_time_pace() {
    let pool = SynthPool::start(2, 8).unwrap();
    let n = pool.admission().limit().min(3) as u64;
    let start = Instant::now();
    let listening: Vec<_> = (0..n).map(|seed| pool.join(music(seed), options()).unwrap()).collect();
    for (seed, mut blocks) in (0..n).zip(listening) {
        let mut alone = music(seed);
        for number in 0..40 {
            let received = blocks.blocking_recv().unwrap();
            let block = alone.next_block().unwrap();
            assert_eq!(received.position, block.position);
            let samples: Vec<f32> =
                block.left.iter().zip(&*block.right).flat_map(|(left, right)| [*left, *right]).collect();
            assert!(received.samples == samples, "block {number} of {seed}");
            assert_eq!(received.notes.is_empty(), number > 0, "the first phrase is planned with the first block");
            assert_eq!(received.level.is_some(), number % 10 == 9);
        }
    }
    let time = start.elapsed();
    assert!(time >= 28 * BLOCK, "40 blocks after {time:?}, of which 10 leave ahead");
}

#[test]
fn a_listener_that_leaves_makes_room_and_a_slow_one_loses_nothing() {
    let pool = SynthPool::start(1, 1).unwrap();
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(60), "{what}");
            std::thread::yield_now();
        }
    };
    let lead = Lead::new(2 * WAITING as u32 * BLOCK);
    let mut slow = pool.join(music(0), PlaybackOptions { sample_rate: 48_000, lead }).unwrap();
    assert!(pool.join(music(1), options()).is_none());
    until("the channel is not full", &|| slow.len() == WAITING);
    for number in 0..2 * WAITING as u64 {
        assert_eq!(slow.blocking_recv().unwrap().position, 480 * number);
    }
    drop(slow);
    until("the permit was not freed", &|| pool.join(music(2), options()).is_some());
}

#[test]
fn a_lead_that_grows_sends_its_blocks_at_once_and_one_that_shrinks_waits() {
    let thread = SynthThread::new();
    let admission = Admission::new(1);
    let (blocks, mut received) = mpsc::channel(WAITING);
    let lead = Lead::new(3 * BLOCK);
    let slot = thread.slot(admission.try_acquire().unwrap(), Instant::now()).unwrap();
    let start = slot.start;
    let mut player = Player::new(music(0), PlaybackOptions { sample_rate: 48_000, lead: lead.clone() }, blocks, slot);
    let mut sent_at = |after: Duration| {
        let now = start + after;
        while player.wake() <= now {
            assert!(player.play(now) && player.send());
        }
        std::iter::from_fn(|| received.try_recv().ok()).count()
    };
    assert_eq!(sent_at(Duration::ZERO), 4);
    lead.set(8 * BLOCK);
    assert_eq!(sent_at(BLOCK), 6, "five more, and the one that is due");
    assert_eq!(sent_at(2 * BLOCK), 1);
    lead.set(3 * BLOCK);
    assert_eq!((3..8).map(|number| sent_at(number * BLOCK)).sum::<usize>(), 0);
    assert_eq!(sent_at(8 * BLOCK), 1);
}

#[test]
fn notes_are_announced_a_second_before_they_sound() {
    for name in ["focus", "bright"] {
        let config = EngineConfig::default().with_sample_rate(8_000);
        let (mut music, _remote) = Endless::new(Style::named(name).unwrap(), 3, config).unwrap();
        let mut n_phrases = 0;
        while n_phrases < 2 {
            let notes = music.plan().unwrap();
            let position = music.next_block().unwrap().position;
            n_phrases += usize::from(!notes.is_empty());
            let is_early = |note: &PlacedNote| position == 0 || note.start >= position + 8_000;
            let late = notes.iter().find(|(_, note)| !is_early(note));
            assert!(late.is_none(), "{name}: at sample {position}, {late:?}");
        }
    }
}

#[test]
fn listeners_of_a_desk_are_spread_over_the_phases() {
    let thread = SynthThread::new();
    let admission = Admission::new(usize::MAX);
    let now = thread.start + Duration::from_micros(123_400);
    let mut slots: Vec<ListenerSlot> =
        (0..2 * PHASES).map(|_| thread.slot(admission.try_acquire().unwrap(), now).unwrap()).collect();
    let phase = |slot: &ListenerSlot| {
        assert!(slot.start >= now && slot.start < now + BLOCK, "{:?}", slot.start - now);
        (slot.start - thread.start).as_nanos() % BLOCK.as_nanos()
    };
    let mut phases: Vec<u128> = slots.iter().map(phase).collect();
    phases.sort_unstable();
    let expected: Vec<u128> = (0..2 * PHASES as u128).map(|index| index / 2 * 1_000_000).collect();
    assert_eq!(phases, expected);
    // One that leaves makes room in its own phase.
    let left = phase(&slots.remove(7));
    assert_eq!((thread.n_players(), admission.in_use()), (2 * PHASES - 1, 2 * PHASES - 1));
    assert_eq!(phase(&thread.slot(admission.try_acquire().unwrap(), now).unwrap()), left);
}

#[test]
fn a_level_is_that_of_its_own_blocks() {
    let (thread, admission) = (SynthThread::new(), Admission::new(1));
    let (blocks, mut received) = mpsc::channel(WAITING);
    let slot = thread.slot(admission.try_acquire().unwrap(), Instant::now()).unwrap();
    let start = slot.start;
    let mut player = Player::new(music(0), options(), blocks, slot);
    let mut peaks = Vec::new();
    for number in 0..500 {
        while player.wake() <= start + number * BLOCK {
            assert!(player.play(start + number * BLOCK) && player.send());
        }
        while let Ok(block) = received.try_recv() {
            peaks.extend(block.level.map(|level| level.peak_dbtp));
        }
    }
    assert!(peaks.len() >= 50 && !peaks.is_sorted_by(|a, b| a <= b), "the peak never falls: {peaks:?}");
}
