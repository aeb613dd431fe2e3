//! Checks a pipe while it is decoded: the bytes that the decoder reads also go to a thread that
//! checks them.

use std::io::{self, Cursor, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use melisma_kernels::lock::Mutex;

use super::{Format, count_samples};
use crate::runtime::thread;
use crate::{Error, ErrorKind, Result};

/// Blocks that the check may lag behind.
const MAX_LAG: usize = 16;
/// The most bytes before the format is known; tags with pictures are long.
const MAX_START: usize = 64 << 20;
/// Bytes that are read at once after the decoder's end.
const BLOCK: usize = 1 << 14;

/// The check of a pipe.
pub(in crate::audio) struct Watch {
    tee: Arc<Mutex<Tee>>,
    thread: Option<JoinHandle<Result<Option<u64>>>>,
}

/// The pipe for the decoder.
pub(in crate::audio) struct Watched(Arc<Mutex<Tee>>);

struct Tee {
    source: Box<dyn Read + Send>,
    feed: Feed,
}

enum Feed {
    /// The bytes so far: the format is not known yet.
    Start(Vec<u8>),
    Running(SyncSender<Vec<u8>>),
    Off,
}

impl Watch {
    pub(in crate::audio) fn new(source: impl Read + Send + 'static) -> (Self, Watched) {
        let tee = Arc::new(Mutex::new(Tee { source: Box::new(source), feed: Feed::Start(Vec::new()) }));
        (Self { tee: Arc::clone(&tee), thread: None }, Watched(tee))
    }

    /// Checks the bytes as `format`, or not at all.
    pub(in crate::audio) fn begin(&mut self, format: Option<Format>) -> Result<()> {
        let mut tee = self.tee.lock();
        let (Feed::Start(start), Some(format)) = (std::mem::replace(&mut tee.feed, Feed::Off), format) else {
            return Ok(());
        };
        let (sender, receiver) = sync_channel(MAX_LAG);
        tee.feed = Feed::Running(sender);
        let fed = Cursor::new(start).chain(FeedReader { receiver, block: Cursor::default() });
        self.thread = Some(thread::start("check", move || count_samples(format, fed))?);
        Ok(())
    }

    /// Returns what is wrong with the start of a pipe that could not be opened because of `error`.
    pub(in crate::audio) fn explain_start(&self, error: Error) -> Error {
        match &self.tee.lock().feed {
            Feed::Start(start) if start.starts_with(b"OggS") => match count_samples(Format::Ogg, &start[..]) {
                Err(found) if found.kind() == ErrorKind::Unsupported => found,
                _ => error,
            },
            _ => error,
        }
    }

    /// Returns the result of the check after the decoder has ended: the number of samples that the
    /// pipe declares, if any.
    pub(in crate::audio) fn end(&mut self) -> Result<Option<u64>> {
        // The decoder may leave tags at the end unread.
        let mut rest = vec![0; BLOCK];
        while self.thread.is_some() {
            let read = self.tee.lock().read_some(&mut rest);
            if read.map_err(|error| Error::io("reading it", error))? == 0 {
                break;
            }
        }
        self.join()
    }

    /// Returns the damage that made the decoder fail with `error`, which does not say where it is.
    pub(in crate::audio) fn explain(&mut self, error: Error) -> Error {
        // The pipe is cut off here, so a check that finds only that found nothing.
        match self.join() {
            Err(found) if found.kind() == ErrorKind::Corrupt => found,
            _ => error,
        }
    }

    fn join(&mut self) -> Result<Option<u64>> {
        self.tee.lock().feed = Feed::Off;
        let Some(thread) = self.thread.take() else { return Ok(None) };
        thread.join().unwrap_or_else(|_| Err(Error::corrupt("the check of the pipe failed")))
    }
}

impl Tee {
    fn read_some(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = loop {
            match self.source.read(to) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        match &mut self.feed {
            Feed::Start(bytes) if bytes.len() + n > MAX_START => return Err(io::ErrorKind::InvalidData.into()),
            Feed::Start(bytes) => bytes.extend_from_slice(&to[..n]),
            // The thread ends early when it finds damage, which `join` returns.
            Feed::Running(sender) if n == 0 || sender.send(to[..n].to_vec()).is_err() => self.feed = Feed::Off,
            Feed::Running(_) | Feed::Off => {}
        }
        Ok(n)
    }
}

impl Read for Watched {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.0.lock().read_some(to)
    }
}

/// The other end of a feed.
struct FeedReader {
    receiver: Receiver<Vec<u8>>,
    block: Cursor<Vec<u8>>,
}

impl Read for FeedReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.block.read(to)? {
                0 if !to.is_empty() => match self.receiver.recv() {
                    Ok(block) => self.block = Cursor::new(block),
                    Err(_) => return Ok(0),
                },
                n => return Ok(n),
            }
        }
    }
}
