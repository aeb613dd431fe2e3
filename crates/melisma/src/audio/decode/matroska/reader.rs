//! Finds the packets of the audio track.

use std::collections::VecDeque;

use symphonia::core::codecs::CodecParameters;
use symphonia::core::codecs::audio::well_known::CODEC_ID_OPUS;
use symphonia::core::errors::{Error as Symphonia, Result as SymphoniaResult, SeekErrorKind};
use symphonia::core::formats::probe::{ProbeDataMatchSpec, ProbeFormatData, ProbeableFormat, Score, Scoreable};
use symphonia::core::formats::well_known::FORMAT_ID_MKV;
use symphonia::core::formats::{
    FormatInfo, FormatOptions, FormatReader, MediaInfo, SeekMode, SeekTo, SeekedTo, Track as SymphoniaTrack,
};
use symphonia::core::io::{MediaSourceStream, ReadBytes, ScopedStream};
use symphonia::core::meta::{Metadata, MetadataLog};
use symphonia::core::packet::Packet;
use symphonia::core::units::{Duration, Timestamp};

use super::super::{MAX_PACKET, carried, opus};
use super::block::Block;
use super::clock::Clock;
use super::ebml::{CRC, Element, Elements, children, signed, unsigned};
use super::track::{Track, number_of_samples};
use super::{
    BLOCK, BLOCK_GROUP, CLUSTER, DISCARD_PADDING, DOC_TYPE, HEADER, INFO, OTHERS, SEGMENT, SIMPLE_BLOCK, TIMESTAMP,
    TIMESTAMP_SCALE, TRACKS,
};
use crate::{Error, Result};

/// The longest header.
const MAX_HEADER: usize = 16 << 20;

const INFO_OF_FORMAT: FormatInfo =
    FormatInfo { format: FORMAT_ID_MKV, short_name: "matroska", long_name: "Matroska / WebM" };

/// A file, at a packet.
pub(in super::super) struct Reader<'s> {
    elements: Elements<MediaSourceStream<'s>>,
    /// Nanoseconds of a tick.
    tick: u64,
    /// Where the segment ends, if it says so.
    end: Option<u64>,
    cluster: Option<Cluster>,
    track: Track,
    ready: VecDeque<Packet>,
    /// That of an Opus track, from its first block on.
    clock: Option<Clock>,
    tracks: [SymphoniaTrack; 1],
    info: MediaInfo,
    log: MetadataLog,
}

#[derive(Debug, Clone, Copy)]
struct Cluster {
    end: Option<u64>,
    /// Its time in ticks; blocks follow it.
    time: Option<u64>,
}

/// What stands before the first cluster.
struct Start {
    end: Option<u64>,
    tick: u64,
    track: Track,
    cluster: Cluster,
}

impl<'s> Reader<'s> {
    fn new(source: MediaSourceStream<'s>) -> Result<Self> {
        let at = source.pos();
        let mut elements = Elements::new(source, at);
        let header = elements.next()?.filter(|element| element.id == HEADER);
        let header = header.ok_or_else(|| Error::corrupt("a Matroska file without a header"))?;
        let Start { end, tick, track, cluster } = start(&mut elements, header)?;
        let tracks = [shown(&track)?];
        let (info, log) = (MediaInfo::new(), MetadataLog::default());
        let (ready, clock, cluster) = (VecDeque::new(), None, Some(cluster));
        Ok(Self { elements, tick, end, cluster, track, ready, clock, tracks, info, log })
    }

    /// Reads the next element; false where another file follows this one, and `None` at the end.
    fn advance(&mut self) -> Result<Option<bool>> {
        let at = self.elements.at;
        if self.cluster.is_some_and(|cluster| cluster.end.is_some_and(|end| at >= end)) {
            self.cluster = None;
        }
        let is_over = self.end.is_some_and(|end| at >= end);
        let Some(element) = self.elements.next()? else {
            let missing = self.cluster.and_then(|cluster| cluster.end).or(self.end).filter(|&end| at < end);
            return match missing {
                Some(end) => Err(Error::truncated(format!("{end} bytes are declared, the file ends at byte {at}"))),
                None => Ok(None),
            };
        };
        let may_follow = is_over || self.end.is_none() && self.cluster.is_none_or(|cluster| cluster.end.is_none());
        if element.id == HEADER && may_follow {
            let Start { end, tick, track, cluster } = start(&mut self.elements, element)?;
            self.tracks = [shown(&track)?];
            (self.end, self.tick, self.track, self.cluster, self.clock) = (end, tick, track, Some(cluster), None);
            return Ok(Some(false));
        }
        if is_over {
            return Err(Error::corrupt(format!("more data follows the end of the Matroska file, at byte {at}")));
        }
        let is_outer = element.id == CLUSTER || OTHERS.contains(&element.id);
        if is_outer && self.cluster.is_some_and(|cluster| cluster.end.is_none()) {
            self.cluster = None;
        }
        let limit = self.cluster.and_then(|cluster| cluster.end).or(self.end);
        if limit.zip(element.end).is_some_and(|(limit, end)| end > limit) {
            return Err(self.elements.no_fit(at));
        }
        match (element.id, element.end, &mut self.cluster) {
            (CLUSTER, end, None) => self.cluster = Some(Cluster { end, time: None }),
            (_, None, _) => return Err(Error::corrupt(format!("the Matroska element at byte {at} has no length"))),
            (CRC, Some(end), Some(Cluster { end: Some(limit), .. })) => {
                let (limit, sum) = (*limit, self.elements.rest(end, 8)?);
                if let Ok(sum) = <[u8; 4]>::try_from(&*sum) {
                    self.elements.expect(u32::from_le_bytes(sum), limit);
                }
            }
            (TIMESTAMP, Some(end), Some(cluster)) => cluster.time = unsigned(&self.elements.rest(end, 8)?),
            (SIMPLE_BLOCK, Some(end), Some(_)) => {
                self.block(end)?;
            }
            (BLOCK_GROUP, Some(end), Some(_)) => self.group(end)?,
            (_, Some(end), _) => self.elements.skip_to(end)?,
        }
        Ok(Some(true))
    }

    /// Reads a block with properties: only the padding counts.
    fn group(&mut self, end: u64) -> Result<()> {
        let (mut before, mut padding) = (self.ready.len(), 0);
        while self.elements.at < end {
            let at = self.elements.at;
            let Some(element) = self.elements.next()? else {
                let message = format!("the file ends at byte {at}, within a group of blocks up to byte {end}");
                return Err(Error::truncated(message));
            };
            let Element { id, end: Some(inner), .. } = element else { return Err(self.elements.no_fit(at)) };
            if inner > end {
                return Err(self.elements.no_fit(at));
            }
            match id {
                BLOCK => before = self.block(inner)?,
                DISCARD_PADDING => padding = signed(&self.elements.rest(inner, 8)?).unwrap_or(0),
                _ => self.elements.skip_to(inner)?,
            }
        }
        let rate = self.track.parameters.sample_rate.unwrap_or(0).into();
        let mut samples = number_of_samples(padding.unsigned_abs(), rate);
        let packets = self.ready.range_mut(before..);
        if padding < 0 {
            packets.take(1).for_each(|packet| packet.trim_start = Duration::new(samples));
        } else {
            for packet in packets.rev() {
                // The length of other packets than Opus is not known.
                let here = if packet.dur == Duration::ZERO { samples } else { samples.min(packet.dur.get()) };
                packet.trim_end = Duration::new(here);
                samples -= here;
            }
        }
        Ok(())
    }

    /// Reads the packets of a block of the track, and returns how many are ready before them.
    fn block(&mut self, end: u64) -> Result<usize> {
        let at = self.elements.at;
        let number = self.elements.number()?;
        if number != Some(self.track.number) {
            self.elements.skip_to(end)?;
            return Ok(self.ready.len());
        }
        let body = self.elements.rest(end, MAX_PACKET)?;
        let cut_off = || Error::corrupt(format!("the Matroska block at byte {at} contradicts itself"));
        let block = Block::parse(&body).filter(|_| self.elements.at == end).ok_or_else(cut_off)?;
        let time = self.cluster.and_then(|cluster| cluster.time);
        let time = time.ok_or_else(|| Error::corrupt(format!("the Matroska block at byte {at} has no time")))?;
        let time = time.saturating_add_signed(block.time.into()).saturating_mul(self.tick);
        let is_opus = self.track.parameters.codec == CODEC_ID_OPUS;
        if is_opus {
            self.conceal(time)?;
        }
        let before = self.ready.len();
        for packet in block.packets {
            let n = if is_opus { opus::n_samples(packet)? as u64 } else { 0 };
            if let Some(clock) = &mut self.clock {
                clock.count(packet, n);
            }
            self.push(packet, n);
        }
        Ok(before)
    }

    /// Puts packets that were not sent before a block of Opus at `time`, where its clock misses some.
    fn conceal(&mut self, time: u64) -> Result<()> {
        let clock = self.clock.get_or_insert_with(|| Clock::new(time));
        let n_missing = clock.go_to(time, self.tick)?;
        if n_missing == 0 {
            return Ok(());
        }
        let frame = opus::unsent(&self.track.parameters, clock.toc)?;
        let n_samples = opus::n_samples(&frame)? as u64;
        for _ in 0..n_missing / n_samples {
            self.push(&frame, n_samples);
        }
        Ok(())
    }

    fn push(&mut self, packet: &[u8], n_samples: u64) {
        let packet = Packet::new(self.tracks[0].id, Timestamp::ZERO, Duration::new(n_samples), packet);
        self.ready.push_back(packet);
    }
}

/// Reads everything from behind the header's head to the first cluster.
fn start(elements: &mut Elements<MediaSourceStream<'_>>, header: Element) -> Result<Start> {
    let end = header.end.ok_or_else(|| Error::corrupt("the Matroska header has no length"))?;
    let body = elements.rest(end, MAX_HEADER)?;
    let kind = children(&body)?.into_iter().find(|(id, _)| *id == DOC_TYPE);
    let kind = String::from_utf8_lossy(kind.map_or(&b"matroska"[..], |(_, kind)| kind)).into_owned();
    if !matches!(kind.trim_end_matches('\0'), "matroska" | "webm") {
        return Err(Error::unsupported(format!("an EBML file of the type `{}`", kind.escape_debug())));
    }
    let segment = elements.next()?.filter(|element| element.id == SEGMENT);
    let limit = segment.ok_or_else(|| Error::truncated("the Matroska file ends after its header"))?.end;
    let (mut tick, mut track) = (1_000_000, None);
    loop {
        let at = elements.at;
        let Some(element) = elements.next()? else {
            return Err(Error::truncated(format!("the Matroska file ends at byte {at}, before any audio")));
        };
        if limit.zip(element.end).is_some_and(|(limit, end)| end > limit) || limit.is_some_and(|limit| at >= limit) {
            return Err(elements.no_fit(at));
        }
        match (element.id, element.end) {
            (CLUSTER, end) => {
                let track = track.ok_or_else(|| Error::unsupported("it has no audio track"))?;
                return Ok(Start { end: limit, tick, track, cluster: Cluster { end, time: None } });
            }
            (_, None) => return Err(Error::corrupt(format!("the Matroska element at byte {at} has no length"))),
            (INFO, Some(end)) => {
                let body = elements.rest(end, MAX_HEADER)?;
                let scale = children(&body)?.into_iter().find(|(id, _)| *id == TIMESTAMP_SCALE);
                tick = scale.and_then(|(_, scale)| unsigned(scale)).unwrap_or(tick);
            }
            (TRACKS, Some(end)) => track = Some(Track::find(&elements.rest(end, MAX_HEADER)?)?),
            (_, Some(end)) => elements.skip_to(end)?,
        }
    }
}

/// Returns a track as symphonia shows it.
fn shown(track: &Track) -> Result<SymphoniaTrack> {
    // The header of Opus is exact.
    let delay = match track.parameters.codec {
        CODEC_ID_OPUS => opus::pre_skip(&track.parameters)?,
        _ => track.delay,
    };
    let mut shown = SymphoniaTrack::new(track.number as u32);
    shown.with_codec_params(CodecParameters::Audio(track.parameters.clone()));
    shown.with_delay(u32::try_from(delay).unwrap_or(u32::MAX));
    Ok(shown)
}

impl FormatReader for Reader<'_> {
    fn format_info(&self) -> &FormatInfo {
        &INFO_OF_FORMAT
    }

    fn media_info(&self) -> &MediaInfo {
        &self.info
    }

    fn metadata(&mut self) -> Metadata<'_> {
        self.log.metadata()
    }

    fn seek(&mut self, _: SeekMode, _: SeekTo) -> SymphoniaResult<SeekedTo> {
        Err(Symphonia::SeekError(SeekErrorKind::Unseekable))
    }

    fn tracks(&self) -> &[SymphoniaTrack] {
        &self.tracks
    }

    fn next_packet(&mut self) -> SymphoniaResult<Option<Packet>> {
        loop {
            if let Some(packet) = self.ready.pop_front() {
                return Ok(Some(packet));
            }
            match self.advance().map_err(carried)? {
                Some(true) => {}
                Some(false) => return Err(Symphonia::ResetRequired),
                None => return Ok(None),
            }
        }
    }

    fn into_inner<'s>(self: Box<Self>) -> MediaSourceStream<'s>
    where
        Self: 's,
    {
        self.elements.into_source()
    }
}

impl ProbeableFormat<'_> for Reader<'_> {
    fn try_probe_new(source: MediaSourceStream<'_>, _: FormatOptions) -> SymphoniaResult<Box<dyn FormatReader + '_>> {
        Ok(Box::new(Reader::new(source).map_err(carried)?))
    }

    fn probe_data() -> &'static [ProbeFormatData] {
        &[ProbeFormatData {
            spec: ProbeDataMatchSpec {
                extensions: &["webm", "weba", "mka", "mkv"],
                mime_types: &["audio/webm", "video/webm", "audio/matroska", "video/matroska"],
                markers: &[b"\x1a\x45\xdf\xa3"],
            },
            info: INFO_OF_FORMAT,
        }]
    }
}

impl Scoreable for Reader<'_> {
    fn score(_: ScopedStream<&mut MediaSourceStream<'_>>) -> SymphoniaResult<Score> {
        Ok(Score::Supported(u8::MAX))
    }
}
