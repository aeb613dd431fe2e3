//! Settings for how the work is done. The values of a dataset do not depend on them.

use crate::audio::Reads;
use crate::{Error, Result};

/// The switches, each with the default that measured best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
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
    /// The launch, counted from 1, that reports an out-of-memory error, to test the recovery.
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
            fail_launch: None,
        }
    }
}

impl Techniques {
    /// Slots per thread on a GPU.
    #[must_use]
    pub fn with_buffers_in_flight(mut self, buffers_in_flight: usize) -> Self {
        self.buffers_in_flight = buffers_in_flight;
        self
    }

    /// Rows per slot.
    #[must_use]
    pub fn with_segments_per_buffer(mut self, segments_per_buffer: impl Into<Option<usize>>) -> Self {
        self.segments_per_buffer = segments_per_buffer.into();
        self
    }

    /// Whether slots are sized to fit the free memory of a GPU.
    #[must_use]
    pub fn with_autosize_gpu_batch(mut self, autosize_gpu_batch: bool) -> Self {
        self.autosize_gpu_batch = autosize_gpu_batch;
        self
    }

    /// Whether the host buffers of a slot are pinned.
    #[must_use]
    pub fn with_pinned(mut self, pinned: bool) -> Self {
        self.pinned = pinned;
        self
    }

    /// Where integers are converted to floats.
    #[must_use]
    pub fn with_conversion(mut self, conversion: Conversion) -> Self {
        self.conversion = conversion;
        self
    }

    /// Which queues copies and kernels run on.
    #[must_use]
    pub fn with_streams(mut self, streams: Streams) -> Self {
        self.streams = streams;
        self
    }

    /// How samples are read from files.
    #[must_use]
    pub fn with_reads(mut self, reads: Reads) -> Self {
        self.reads = reads;
        self
    }

    /// How rows are written to files.
    #[must_use]
    pub fn with_writes(mut self, writes: Writes) -> Self {
        self.writes = writes;
        self
    }

    /// The launch that reports an out-of-memory error, to test the recovery.
    #[must_use]
    pub fn with_fail_launch(mut self, fail_launch: impl Into<Option<u64>>) -> Self {
        self.fail_launch = fail_launch.into();
        self
    }

    /// Sets one technique from `KEY=VALUE`.
    ///
    /// # Errors
    /// The key or the value is unknown.
    pub fn set(&mut self, text: &str) -> Result<()> {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        let unknown = |known: &str| {
            Error::invalid(format!("`{value}` is not a value of the technique {key}"))
                .with_hint(format!("write {key}= and one of {known}"))
        };
        let switch = || match value {
            "on" | "true" => Ok(true),
            "off" | "false" => Ok(false),
            _ => Err(unknown("on, off")),
        };
        let number = || value.parse::<usize>().ok().filter(|&n| n > 0).ok_or_else(|| unknown("1, 2, 3 and so on"));
        match key {
            "buffers_in_flight" | "num_mega_buffers" => self.buffers_in_flight = number()?,
            "segments_per_buffer" | "seg_microbatch_segments" => self.segments_per_buffer = Some(number()?),
            "autosize_gpu_batch" => self.autosize_gpu_batch = switch()?,
            "pinned" => self.pinned = switch()?,
            "conversion" => {
                self.conversion = match value {
                    "batched" => Conversion::Batched,
                    "per-file" => Conversion::PerFile,
                    _ => return Err(unknown("batched, per-file")),
                }
            }
            "streams" => {
                self.streams = match value {
                    "split" => Streams::Split,
                    "own" => Streams::Own,
                    "one" => Streams::One,
                    _ => return Err(unknown("split, own, one")),
                }
            }
            "reads" => {
                self.reads = match value {
                    "direct" => Reads::Direct,
                    "buffered" => Reads::Buffered,
                    "mapped" => Reads::Mapped,
                    _ => return Err(unknown("direct, buffered, mapped")),
                }
            }
            "writes" => {
                self.writes = match value {
                    "auto" => Writes::Auto,
                    "direct" => Writes::Direct,
                    "copied" => Writes::Copied,
                    "mapped" => Writes::Mapped,
                    _ => return Err(unknown("auto, direct, copied, mapped")),
                }
            }
            "fail_launch" => self.fail_launch = Some(number()? as u64),
            _ => {
                let known = "buffers_in_flight, segments_per_buffer, autosize_gpu_batch, pinned, conversion, streams, \
                             reads, writes, fail_launch";
                return Err(Error::invalid(format!("unknown technique `{key}`"))
                    .with_hint(format!("the techniques are {known}")));
            }
        }
        Ok(())
    }
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
