//! Writes PNG files with three bytes per pixel.

use miniz_oxide::deflate::compress_to_vec_zlib;

/// Encodes an image of `width` x `height` pixels, rows from top to bottom. It is valid if there are as
/// many `pixels`, of three bytes each.
pub fn encode(width: usize, height: usize, pixels: &[u8]) -> Vec<u8> {
    let mut lines = Vec::with_capacity(pixels.len() + height.min(pixels.len()));
    for line in pixels.chunks(width.max(1).saturating_mul(3)) {
        // Filter 1: each byte minus the same byte of the previous pixel.
        lines.push(1);
        lines.extend((0..line.len()).map(|i| line[i].wrapping_sub(if i < 3 { 0 } else { line[i - 3] })));
    }
    let mut header = Vec::new();
    header.extend((width as u32).to_be_bytes());
    header.extend((height as u32).to_be_bytes());
    // Eight bits per channel, RGB, no interlacing.
    header.extend([8, 2, 0, 0, 0]);
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut file, b"IHDR", &header);
    chunk(&mut file, b"IDAT", &compress_to_vec_zlib(&lines, 6));
    chunk(&mut file, b"IEND", &[]);
    file
}

fn chunk(file: &mut Vec<u8>, kind: &[u8; 4], body: &[u8]) {
    file.extend((body.len() as u32).to_be_bytes());
    let start = file.len();
    file.extend(kind);
    file.extend(body);
    let sum = crc32fast::hash(&file[start..]);
    file.extend(sum.to_be_bytes());
}
