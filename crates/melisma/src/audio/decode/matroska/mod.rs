//! Reads the audio track of Matroska and WebM (RFC 9559), as one of symphonia's readers. Unlike
//! symphonia's own one it takes the padding at the end of Opus off, conceals lost packets of Opus, checks the
//! checksums, and refuses files that are cut off or have a long gap.

mod block;
mod clock;
mod ebml;
mod reader;
mod track;

pub(super) use reader::Reader;

/// The head of a file.
const HEADER: u32 = 0x1a45_dfa3;
const DOC_TYPE: u32 = 0x4282;
/// Everything after it.
const SEGMENT: u32 = 0x1853_8067;
const INFO: u32 = 0x1549_a966;
const TIMESTAMP_SCALE: u32 = 0x002a_d7b1;
const TRACKS: u32 = 0x1654_ae6b;
/// Audio of a few seconds.
const CLUSTER: u32 = 0x1f43_b675;
const TIMESTAMP: u32 = 0xe7;
const SIMPLE_BLOCK: u32 = 0xa3;
const BLOCK_GROUP: u32 = 0xa0;
const BLOCK: u32 = 0xa1;
const DISCARD_PADDING: u32 = 0x75a2;
/// What may follow a cluster of unknown length, besides another one: seek heads, tags, cues, chapters
/// and attachments.
const OTHERS: [u32; 5] = [0x114d_9b74, 0x1254_c367, 0x1c53_bb6b, 0x1043_a770, 0x1941_a469];
