//! The names and units of rows, as any record has them. `cargo xtask bench` compiles this file too,
//! so that both tools agree.

/// The direction in which a figure improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Rates and factors.
    Larger,
    /// Times and sizes.
    Smaller,
    /// Shares that should grow, such as deadlines met; they may be 0, and their change is in
    /// points.
    LargerShare,
    /// Figures that explain others: a device is less busy when its kernels become faster.
    Neither,
}

/// Every unit of a row.
pub(crate) const UNITS: [(&str, Better); 22] = [
    ("s", Better::Smaller),
    ("ms", Better::Smaller),
    ("us", Better::Smaller),
    ("ns", Better::Smaller),
    ("bytes", Better::Smaller),
    ("B", Better::Smaller),
    ("KiB", Better::Smaller),
    ("MiB", Better::Smaller),
    ("GiB", Better::Smaller),
    ("share", Better::Smaller),
    ("x", Better::Larger),
    ("GB/s", Better::Larger),
    ("MB/s", Better::Larger),
    ("GFLOP/s", Better::Larger),
    ("TFLOP/s", Better::Larger),
    ("M/s", Better::Larger),
    ("Mframes/s", Better::Larger),
    ("files/s", Better::Larger),
    ("segments/s", Better::Larger),
    ("voice-s/s", Better::Larger),
    ("%", Better::LargerShare),
    ("% busy", Better::Neither),
];

/// The direction in which figures in `unit` improve, if the unit is known.
pub(crate) fn direction(unit: &str) -> Option<Better> {
    UNITS.iter().find(|(known, _)| *known == unit).map(|(_, better)| *better)
}

/// The improvement from `old` to `new`: 0.25 means a quarter more speed, a time divided by 1.25, or
/// 25 points of a share.
pub(crate) fn gain(better: Better, old: f64, new: f64) -> f64 {
    match better {
        Better::Larger => new / old - 1.0,
        Better::Smaller => old / new - 1.0,
        Better::LargerShare => (new - old) / 100.0,
        Better::Neither => 0.0,
    }
}

/// Parts of row names in older records, and their current names.
const RENAMED: [(&str, &str); 4] = [
    ("(seed: ", "(expected "),
    (": factor, the seed claims ", ": factor, expected "),
    ("seg_microbatch_segments", "segments_per_buffer"),
    ("num_mega_buffers", "buffers_in_flight"),
];

/// The current name of a row from any record.
pub(crate) fn current(name: &str) -> String {
    RENAMED.iter().fold(name.to_owned(), |name, (old, new)| name.replace(old, new))
}
