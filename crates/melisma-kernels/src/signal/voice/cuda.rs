//! Tables, grid and arguments of `voice.cu`.
//!
//! # Why does a GPU render the filter twice?
//!
//! The filter's state is the only value that a sample needs from the previous one. A chunk's effect
//! on it is an affine map: the maps of all chunks are computed at once, chained, and then all
//! chunks are rendered at once. The grouping of voices and chunks changes no bit.

use bytemuck::{Pod, Zeroable};

use super::group::Kind;
use super::note::{Arrangement, Bulk, Note};
use super::sound::{N_PARTIALS, Source as Sound};
use super::step::table;
use super::{UNIT, level, math};
use crate::device::cuda::{Address, Cuda, DEVICE, Function, Header, Source};
use crate::memory::view::CudaViewMut;
use crate::queue::{CudaQueue, Launch, Upload, arguments};
use crate::{Budget, Buffer, Element, Result, Tensor};

const VOICE: Header = Header { name: "voice.cuh", text: include_str!("voice.cuh") };
const SOURCE: Source = Source { name: "voice", text: include_str!("voice.cu"), headers: &[DEVICE, VOICE] };
const CHUNK: usize = 512;
const BLOCK: u32 = 128;
/// Floats of a chunk's map.
const MAP_LEN: usize = 6;

/// `Voice` of `voice.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
struct DeviceVoice {
    kind: u32,
    mix: u32,
    onset: u64,
    end: u32,
    n_segments: u32,
    segments: [level::Part; level::N_PARTS],
    left: f32,
    right: f32,
    increment: u64,
    saw_increment: u64,
    period: f32,
    sine: f32,
    saw: f32,
    octaves: f32,
    sweep: f32,
    sweep_rate: f32,
    lfo_depth: f32,
    damping: f32,
    lfo_phase: u32,
    lfo_increment: u32,
    seed: u32,
    mix_levels: [f32; 3],
    levels: [f32; N_PARTIALS],
    rates: [f32; N_PARTIALS],
    drum_increment: u32,
    drop: f32,
    drop_rate: f32,
    padding: u32,
}

/// `Params` of `voice.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Params {
    voices_dev: Address,
    lanes_dev: Address,
    step_dev: Address,
    controls_dev: Address,
    states_dev: Address,
    sums_dev: Address,
    out_dev: Address,
    position: u64,
    n_lanes: u32,
    n_chunks: u32,
    len: u32,
    group: u32,
    alone: u32,
    n_controls: u32,
    controls_stride: u32,
}

/// Lanes per multiprocessor at which one thread per voice fills the device.
const SERIAL_LANES: u32 = 512;

#[derive(Debug)]
pub(super) struct OnCuda {
    cuda: Cuda,
    budget: Budget,
    render: Function,
    serial: Function,
    states: Function,
    scan: Function,
    convert: Function,
    step: Tensor,
    voices: Vec<DeviceVoice>,
    buffers: Option<Buffers>,
    group: u32,
    is_alone: bool,
    is_filtered: bool,
    is_serial: bool,
    /// The lanes from which a thread renders a whole voice.
    pub(super) serial_lanes: usize,
    /// Controls per mix, and the distance to those of the next mix.
    controls: [u32; 2],
}

#[derive(Debug)]
struct Buffers {
    voices: Buffer,
    lanes: Buffer,
    controls: Buffer,
    states: Buffer,
    sums: Buffer,
    n_lanes: usize,
}

impl Buffers {
    fn lens(&self) -> [usize; 5] {
        [&self.voices, &self.lanes, &self.controls, &self.states, &self.sums].map(Buffer::len)
    }
}

impl OnCuda {
    pub(super) fn new(cuda: &Cuda, budget: &Budget) -> Result<Self> {
        Ok(Self {
            cuda: cuda.clone(),
            budget: budget.clone(),
            render: cuda.function(SOURCE, "voice_render")?,
            serial: cuda.function(SOURCE, "voice_serial")?,
            states: cuda.function(SOURCE, "voice_states")?,
            scan: cuda.function(SOURCE, "voice_scan")?,
            convert: cuda.function(SOURCE, "voice_convert")?,
            step: Upload::new(cuda, budget)?.slice(table().0.as_flattened())?,
            voices: Vec::new(),
            buffers: None,
            group: 8,
            is_alone: false,
            is_filtered: false,
            is_serial: false,
            serial_lanes: (cuda.n_processors() * SERIAL_LANES) as usize,
            controls: [1, 0],
        })
    }

    /// Uploads notes to the device; memory grows to the largest set.
    pub(super) fn load(&mut self, queue: &CudaQueue, bulk: Bulk, arranged: &Arrangement<'_>) -> Result<()> {
        let Arrangement { notes, lanes, group, is_alone, moves } = *arranged;
        self.voices.clear();
        self.voices.extend(notes.iter().map(device_voice));
        let filtered = |note: &Note| matches!(note.voice.source, Sound::Tone(_) | Sound::Noise(_));
        self.is_filtered = notes.iter().any(filtered);
        self.is_serial = lanes.len() >= self.serial_lanes;
        (self.group, self.is_alone) = (group, is_alone);
        self.controls = [moves.per_mix as u32, if moves.per_mix > 1 { moves.per_mix as u32 } else { 0 }];
        let n_chunks = bulk.len.div_ceil(CHUNK);
        let has_states = self.is_filtered && !self.is_serial;
        let states = if has_states { lanes.len() * n_chunks * MAP_LEN * size_of::<f32>() } else { 0 };
        let sums = if is_alone { 0 } else { bulk.out_len() * size_of::<i32>() };
        let controls: Vec<[f32; 2]> = moves.controls.iter().map(|c| [c.brightness, c.motion]).collect();
        let needed = [size_of_val(&self.voices[..]), size_of_val(lanes), size_of_val(&controls[..]), states, sums];
        let held = self.buffers.as_ref().map(Buffers::lens);
        if held.is_none_or(|held| held.iter().zip(needed).any(|(&held, needed)| held < needed)) {
            // A recorded graph or a run may still use the old buffers.
            queue.synchronize()?;
            let largest = |index: usize| held.map_or(0, |held| held[index]).max(needed[index]);
            self.buffers = None;
            let device = |index| Buffer::device(&self.cuda, &self.budget, largest(index).next_multiple_of(64));
            self.buffers = Some(Buffers {
                voices: device(0)?,
                lanes: device(1)?,
                controls: device(2)?,
                states: device(3)?,
                sums: device(4)?,
                n_lanes: 0,
            });
        }
        if let Some(buffers) = &mut self.buffers {
            buffers.n_lanes = lanes.len();
            upload::<u8>(queue, bytemuck::cast_slice(&self.voices), &mut buffers.voices)?;
            upload::<u8>(queue, bytemuck::cast_slice(lanes), &mut buffers.lanes)?;
            upload::<u8>(queue, bytemuck::cast_slice(&controls), &mut buffers.controls)?;
        }
        Ok(())
    }

    pub(super) fn run(&self, queue: &CudaQueue, bulk: Bulk, out: CudaViewMut<'_, f32>) -> Result<()> {
        let Some(buffers) = self.buffers.as_ref().filter(|buffers| buffers.n_lanes > 0) else {
            return queue.fill_zero(out.address_dev, out.len * size_of::<f32>());
        };
        if out.len == 0 {
            return Ok(());
        }
        let n_chunks = bulk.len.div_ceil(CHUNK) as u32;
        let (sums_dev, out_dev, n) = (buffers.sums.address(), out.address_dev, out.len as u64);
        let params = Params {
            voices_dev: buffers.voices.address(),
            lanes_dev: buffers.lanes.address(),
            step_dev: crate::queue::address::<f32>(&self.step)?,
            controls_dev: buffers.controls.address(),
            states_dev: buffers.states.address(),
            sums_dev,
            out_dev,
            position: bulk.position,
            n_lanes: buffers.n_lanes as u32,
            n_chunks,
            len: bulk.len as u32,
            group: self.group,
            alone: self.is_alone.into(),
            n_controls: self.controls[0],
            controls_stride: self.controls[1],
        };
        let lanes = (buffers.n_lanes as u32).div_ceil(BLOCK);
        let over = |y| Launch { grid: (lanes, y, 1), block: (BLOCK, 1, 1), shared_bytes: 0 };
        // SAFETY: `load` made the buffers for the lanes, voices and chunks named in `params`, and `out` holds the mixes;
        // here and below.
        unsafe {
            if self.is_filtered && !self.is_serial {
                queue.launch(&self.states, over(n_chunks.min(65_535)), arguments![params])?;
                queue.launch(&self.scan, over(1), arguments![params])?;
            }
            if !self.is_alone {
                queue.fill_zero(sums_dev, out.len * size_of::<i32>())?;
            }
            if self.is_filtered && self.is_serial {
                queue.launch(&self.serial, over(1), arguments![params])?;
            } else {
                queue.launch(&self.render, over(n_chunks.min(65_535)), arguments![params])?;
            }
            if !self.is_alone {
                queue.launch(&self.convert, Launch::shared(queue, out.len), arguments![sums_dev, out_dev, n])?;
            }
        }
        Ok(())
    }
}

fn upload<T: Element>(queue: &CudaQueue, from: &[T], to: &mut Buffer) -> Result<()> {
    queue.copy(from.into(), to.view_mut::<T>()?.first(from.len())?)
}

fn device_voice(note: &Note) -> DeviceVoice {
    let voice = &note.voice;
    let life = level::parts(voice.envelope, note.onset, note.release);
    let mut device = DeviceVoice {
        kind: Kind::of(&voice.source) as u32,
        mix: note.mix,
        onset: note.onset,
        end: life.end,
        n_segments: life.n_parts,
        segments: life.parts,
        left: voice.gain[0] * UNIT,
        right: voice.gain[1] * UNIT,
        damping: 1.0,
        ..DeviceVoice::default()
    };
    let filter = match &voice.source {
        Sound::Tone(tone) => {
            (device.increment, device.saw_increment) = (tone.increment, tone.saw_increment);
            device.period = math::period(tone.saw_increment);
            (device.sine, device.saw) = (tone.sine, tone.saw);
            Some(&tone.filter)
        }
        Sound::Noise(noise) => {
            (device.seed, device.mix_levels) = (noise.seed, noise.mix);
            Some(&noise.filter)
        }
        Sound::Partials(partials) => {
            device.increment = partials.increment;
            (device.levels, device.rates) = (partials.audible_levels(), partials.rates);
            None
        }
        Sound::Drum(drum) => {
            (device.drum_increment, device.drop, device.drop_rate) = (drum.increment, drum.drop, drum.rate);
            None
        }
    };
    if let Some(filter) = filter {
        (device.octaves, device.sweep, device.sweep_rate) = (filter.octaves, filter.sweep, filter.rate);
        (device.lfo_phase, device.lfo_increment) = (filter.lfo_phase, filter.lfo_increment);
        (device.lfo_depth, device.damping) = (filter.lfo_depth, filter.damping);
    }
    device
}
