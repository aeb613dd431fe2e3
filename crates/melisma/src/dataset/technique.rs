//! Settings for how the work is done. The values of a dataset do not depend on them.

use crate::audio::Reads;
use crate::{Error, Result};

/// The switches, each with the default that measured best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Techniques {
    /// Slots per thread on a GPU. With several, one is filled while others are copied, transformed
    /// and written. With one, other threads work meanwhile, and more of the data stays in caches.
    pub buffers_in_flight: usize,
    /// Rows per slot; `None` derives them from the bytes.
    pub segments_per_buffer: Option<usize>,
    /// Whether slots are sized to fit the free memory of a GPU.
    pub autosize_gpu_batch: bool,
    /// Whether the host buffers of a slot are pinned, so that copies run in parallel.
    pub pinned: bool,
    /// Where integers are converted to floats.
    pub conversion: Conversion,
    /// Which queues copies and kernels run on.
    pub streams: Streams,
    /// How samples are read from files.
    pub reads: Reads,
    /// How rows are written to files.
    pub writes: Writes,
    /// The launch, counted from 1, that reports an out-of-memory error: for the bench and the tests of the recovery.
    #[cfg(feature = "bench")]
    pub fail_launch: Option<u64>,
}

/// Where integers are converted to floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conversion {
    /// In the transform, for a whole slot at once.
    Batched,
    /// On the host, file by file.
    PerFile,
}

/// The queues of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// Separate queues for copies in, kernels and copies out, per thread.
    Split,
    /// One queue per thread.
    Own,
    /// One queue for all threads.
    One,
}

/// How rows are written to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Mapped if many threads write, direct otherwise.
    Auto,
    /// From the slot by a system call, which admits one thread at a time per file.
    Direct,
    /// Like direct, from a copy.
    Copied,
    /// Into a map of the file, which many threads can use at once.
    Mapped,
}

impl Default for Techniques {
    fn default() -> Self {
        Self {
            buffers_in_flight: 1,
            segments_per_buffer: None,
            autosize_gpu_batch: true,
            pinned: true,
            conversion: Conversion::Batched,
            streams: Streams::Own,
            reads: Reads::Direct,
            writes: Writes::Auto,
            #[cfg(feature = "bench")]
            fail_launch: None,
        }
    }
}

impl Techniques {
    /// Returns whether the launch with this number, counted from 1, is to report an out-of-memory
    /// error.
    #[cfg(feature = "bench")]
    pub(super) fn fails(&self, launch: u64) -> bool {
        self.fail_launch == Some(launch)
    }

    /// Returns false: only the bench makes launches fail.
    #[cfg(not(feature = "bench"))]
    pub(super) fn fails(&self, _launch: u64) -> bool {
        false
    }

    /// Sets one technique from `KEY=VALUE`.
    ///
    /// # Errors
    /// The key or the value is unknown.
    pub fn set(&mut self, text: &str) -> Result<()> {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        let number = || {
            let number = value.parse::<usize>().ok().filter(|&n| n > 0);
            number.ok_or_else(|| unknown(text, "1, 2, 3 and so on"))
        };
        let switch = || one_of(text, &[("on", true), ("off", false), ("true", true), ("false", false)]);
        match key {
            "buffers_in_flight" | "num_mega_buffers" => self.buffers_in_flight = number()?,
            "segments_per_buffer" | "seg_microbatch_segments" => self.segments_per_buffer = Some(number()?),
            "autosize_gpu_batch" => self.autosize_gpu_batch = switch()?,
            "pinned" => self.pinned = switch()?,
            "conversion" => {
                self.conversion = one_of(text, &[("batched", Conversion::Batched), ("per-file", Conversion::PerFile)])?;
            }
            "streams" => {
                let known = [("split", Streams::Split), ("own", Streams::Own), ("one", Streams::One)];
                self.streams = one_of(text, &known)?;
            }
            "reads" => {
                let known = [("direct", Reads::Direct), ("buffered", Reads::Buffered), ("mapped", Reads::Mapped)];
                self.reads = one_of(text, &known)?;
            }
            "writes" => {
                self.writes = one_of(
                    text,
                    &[
                        ("auto", Writes::Auto),
                        ("direct", Writes::Direct),
                        ("copied", Writes::Copied),
                        ("mapped", Writes::Mapped),
                    ],
                )?;
            }
            _ => {
                let known = "buffers_in_flight, segments_per_buffer, autosize_gpu_batch, pinned, conversion, streams, \
                             reads, writes";
                return Err(Error::invalid(format!("unknown technique `{key}`"))
                    .with_hint(format!("the techniques are {known}")));
            }
        }
        Ok(())
    }
}

fn one_of<T: Copy>(text: &str, known: &[(&str, T)]) -> Result<T> {
    let value = text.split_once('=').map_or("", |(_, value)| value);
    let found = known.iter().find(|(name, _)| *name == value).map(|(_, value)| *value);
    found.ok_or_else(|| unknown(text, &known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")))
}

fn unknown(text: &str, known: &str) -> Error {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    Error::invalid(format!("`{value}` is not a value of the technique {key}"))
        .with_hint(format!("write {key}= and one of {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn techniques_are_read_and_wrong_ones_are_named() {
        let mut techniques = Techniques::default();
        for text in ["reads=mapped", "pinned=off", "buffers_in_flight=2", "streams=one", "writes=copied"] {
            techniques.set(text).unwrap();
        }
        let expected = Techniques {
            reads: Reads::Mapped,
            pinned: false,
            buffers_in_flight: 2,
            streams: Streams::One,
            writes: Writes::Copied,
            ..Techniques::default()
        };
        assert_eq!(techniques, expected);
        let mut older = Techniques::default();
        ["num_mega_buffers=3", "seg_microbatch_segments=7"].iter().for_each(|text| older.set(text).unwrap());
        assert_eq!((older.buffers_in_flight, older.segments_per_buffer), (3, Some(7)), "older names");
        for (text, message) in
            [("reads=slow", "direct, buffered, mapped"), ("buffers_in_flight=0", "1, 2"), ("x=1", "pinned")]
        {
            let error = techniques.set(text).unwrap_err();
            assert!(error.hint().unwrap_or_default().contains(message), "{text}: {error}");
        }
    }
}
