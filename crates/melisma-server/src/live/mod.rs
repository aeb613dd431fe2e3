//! Music for many listeners: threads that render every listener's next 10 ms in time.
//!
//! A [`SynthPool`] has a few threads, each with some of the listeners. A listener's blocks leave at
//! real-time pace, a little ahead at first, so that its player has a reserve. A listener with a full
//! channel is skipped this round and resumes where it stopped.
//!
//! Listeners of a thread start at one of ten phases of a block, the one with the fewest of them: one
//! wake-up serves a tenth of them, and no block waits for all the others.

mod player;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use melisma::Result;
use melisma::audio::Meter;
use melisma::lock::{Condvar, Mutex};
use melisma::runtime::thread;
use melisma::synth::{Endless, EngineConfig, PlacedNote, STYLES};
use tokio::sync::mpsc;

use crate::admission::{Admission, Permit};
use player::Player;

/// The time of a block.
pub const BLOCK: Duration = Duration::from_millis(10);
/// Blocks of one listener that wait for its connection.
const WAITING: usize = 64;
/// The share of a thread's time that rendering may take.
const SHARE: f64 = 0.6;
/// Blocks rendered to measure a thread.
const MEASURED: u32 = 100;

/// Sample rate and lead of one listener's music.
#[derive(Debug, Clone)]
pub struct PlaybackOptions {
    /// Samples per second.
    pub sample_rate: u32,
    /// How early blocks leave.
    pub lead: Lead,
}

/// Blocks that leave ahead of their time, as a reserve. The listener may change it while the music plays.
#[derive(Debug, Clone)]
pub struct Lead(Arc<AtomicU32>);

impl Lead {
    /// Creates a lead of the blocks that fit into `ahead`.
    pub fn new(ahead: Duration) -> Self {
        let lead = Self(Arc::default());
        lead.set(ahead);
        lead
    }

    /// Takes effect with the next block.
    pub fn set(&self, ahead: Duration) {
        self.0.store((ahead.as_millis() / BLOCK.as_millis()) as u32, Relaxed);
    }

    fn n_blocks(&self) -> u32 {
        self.0.load(Relaxed)
    }
}

/// A block of one listener's music.
#[derive(Debug)]
pub struct RenderedBlock {
    /// Index of its first sample.
    pub position: u64,
    /// Left and right, interleaved.
    pub samples: Vec<f32>,
    /// Notes that were planned with it, by id.
    pub notes: Vec<(u64, PlacedNote)>,
    /// Each tenth of a second: how loud it is.
    pub level: Option<Level>,
    /// When it was due.
    pub due: Instant,
}

/// How loud the last tenth of a second was.
#[derive(Debug, Clone, Copy)]
pub struct Level {
    /// `None` for silence.
    pub peak_dbtp: Option<f64>,
    /// Of the last 400 ms; `None` for silence.
    pub momentary_lufs: Option<f64>,
}

/// Phases of a block's time at which blocks are due.
const PHASES: usize = 10;

/// Threads that render music for many listeners.
#[derive(Debug)]
pub struct SynthPool {
    threads: Vec<Arc<SynthThread>>,
    handles: Vec<JoinHandle<()>>,
    admission: Admission,
}

/// One thread and its listeners.
#[derive(Debug)]
struct SynthThread {
    state: Mutex<State>,
    joined: Condvar,
    /// When the first phase began.
    start: Instant,
    /// The listeners of each phase.
    phases: [Admission; PHASES],
}

/// Reserves capacity for one listener; `start` is the time of its first block.
#[derive(Debug)]
struct ListenerSlot {
    start: Instant,
    _permits: [Permit; 2],
}

#[derive(Debug, Default)]
struct State {
    /// Listeners that the thread has not seen yet.
    joining: Vec<Player>,
    is_stopping: bool,
}

impl SynthPool {
    /// Starts `n_threads` threads and measures how many listeners they can play for, at most
    /// `max_listeners`.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(n_threads: usize, max_listeners: usize) -> Result<Self> {
        let fitting = SHARE * n_threads as f64 * BLOCK.as_secs_f64() / block_seconds()?;
        let admission = Admission::new(max_listeners.min(fitting as usize).max(1));
        let threads: Vec<Arc<SynthThread>> = (0..n_threads.max(1)).map(|_| Arc::new(SynthThread::new())).collect();
        let start = |thread: &Arc<SynthThread>| {
            let thread = Arc::clone(thread);
            thread::start("music", move || thread.run())
        };
        let handles = threads.iter().map(start).collect::<Result<_>>()?;
        Ok(Self { threads, handles, admission })
    }

    /// Plays `music` for a new listener, or returns `None` if there are too many. Never waits.
    pub fn join(&self, music: Endless, options: PlaybackOptions) -> Option<mpsc::Receiver<RenderedBlock>> {
        let permit = self.admission.try_acquire()?;
        let (blocks, received) = mpsc::channel(WAITING);
        let thread = self.threads.iter().min_by_key(|thread| thread.n_players())?;
        let slot = thread.slot(permit, Instant::now())?;
        thread.state.lock().joining.push(Player::new(music, options, blocks, slot));
        thread.joined.notify_one();
        Some(received)
    }

    /// Returns what limits the number of listeners.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }
}

impl Drop for SynthPool {
    fn drop(&mut self) {
        for thread in &self.threads {
            thread.state.lock().is_stopping = true;
            thread.joined.notify_one();
        }
        for handle in self.handles.drain(..) {
            // A panic has closed the channels of its listeners.
            let _ = handle.join();
        }
    }
}

impl SynthThread {
    fn new() -> Self {
        let phases = std::array::from_fn(|_| Admission::new(usize::MAX));
        Self { state: Mutex::default(), joined: Condvar::new(), start: Instant::now(), phases }
    }

    fn n_players(&self) -> usize {
        self.phases.iter().map(Admission::in_use).sum()
    }

    /// Reserves a slot in the phase with the fewest listeners.
    fn slot(&self, permit: Permit, now: Instant) -> Option<ListenerSlot> {
        let (phase, listeners) = (0..).zip(&self.phases).min_by_key(|(_, listeners)| listeners.in_use())?;
        let block = BLOCK.as_nanos();
        let past = now.saturating_duration_since(self.start).as_nanos() % block;
        let wait = (phase * block / PHASES as u128 + block - past) % block;
        let start = now + Duration::from_nanos(wait as u64);
        Some(ListenerSlot { start, _permits: [permit, listeners.try_acquire()?] })
    }

    fn run(&self) {
        let mut players: Vec<Player> = Vec::new();
        loop {
            {
                let mut state = self.state.lock();
                while players.is_empty() && state.joining.is_empty() && !state.is_stopping {
                    state = self.joined.wait(state);
                }
                if state.is_stopping {
                    return;
                }
                players.append(&mut state.joining);
            }
            // Sent together, blocks wake the threads that write them once.
            players.retain_mut(|player| player.play(Instant::now()));
            players.retain_mut(Player::send);
            let next = players.iter().map(Player::wake).min();
            let wait = next.map_or(Duration::ZERO, |next| next.saturating_duration_since(Instant::now()));
            if !wait.is_zero() {
                // A listener that joins wakes the thread at once.
                let is_idle = |state: &mut State| state.joining.is_empty() && !state.is_stopping;
                drop(self.joined.wait_timeout_while(self.state.lock(), wait, is_idle));
            }
        }
    }
}

/// Returns the seconds that a block of the densest preset takes, on average, with its level.
fn block_seconds() -> Result<f64> {
    let mut worst = 0.0f64;
    for style in STYLES.iter() {
        let config = EngineConfig::default();
        let mut meter = Meter::new(config.sample_rate);
        let (mut music, _remote) = Endless::new(style.clone(), 0, config)?;
        let start = Instant::now();
        for _ in 0..MEASURED {
            let block = music.next_block()?;
            meter.push(block.left, block.right);
        }
        worst = worst.max(start.elapsed().as_secs_f64() / f64::from(MEASURED));
    }
    Ok(worst.max(1e-6))
}

#[cfg(test)]
mod tests;
