//! Speeds relative to real time.

/// Returns the seconds of audio per second of work, with one decimal below ten and three below a
/// tenth: `140x realtime`, `3.2x realtime`, `0.027x realtime`.
pub fn realtime(audio_seconds: f64, wall_seconds: f64) -> String {
    let factor = audio_seconds / wall_seconds.max(1e-9);
    let digits = match factor {
        0.0005..0.095 => 3,
        ..9.95 => 1,
        _ => 0,
    };
    format!("{factor:.digits$}x realtime")
}

#[cfg(test)]
mod tests {
    use super::realtime;

    #[test]
    fn slow_work_has_a_decimal() {
        let shown = [(0.0, 1.0), (1.6, 0.5), (9.94, 1.0), (9.95, 1.0), (140.0, 1.0), (0.0268, 1.0)]
            .map(|(audio, wall)| realtime(audio, wall));
        assert_eq!(
            shown,
            ["0.0x realtime", "3.2x realtime", "9.9x realtime", "10x realtime", "140x realtime", "0.027x realtime"]
        );
        assert_eq!(realtime(1.0, 0.0), "1000000000x realtime");
    }
}
