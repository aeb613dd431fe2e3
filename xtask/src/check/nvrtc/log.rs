//! Parses what `ptxas -v` reports for each kernel:
//!
//! ```text
//! ptxas info    : Compiling entry function 'convert_f32' for 'sm_80'
//! ptxas info    : Function properties for convert_f32
//! ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//! ptxas info    : Used 10 registers, used 1 barriers, 1024 bytes smem, 372 bytes cmem[0]
//! ```

/// The resources of one kernel; sizes in bytes.
#[derive(Debug, Default, PartialEq)]
pub struct Usage {
    pub kernel: String,
    pub registers: u32,
    /// Static shared memory.
    pub shared: u32,
    pub stack: u32,
    /// The larger of stores and loads, including those of the functions it calls.
    pub spill: u32,
}

/// Returns one entry per kernel, in log order.
pub fn usages(log: &str) -> Vec<Usage> {
    let mut found: Vec<Usage> = Vec::new();
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let kernel = rest.split('\'').next().unwrap_or_default().to_string();
            found.push(Usage { kernel, ..Usage::default() });
        }
        let Some(usage) = found.last_mut() else { continue };
        if line.contains("bytes stack frame") {
            usage.stack += number_before(line, " bytes stack frame");
            usage.spill += number_before(line, " bytes spill stores").max(number_before(line, " bytes spill loads"));
        } else if line.contains(": Used ") {
            usage.registers = number_before(line, " registers");
            usage.shared = number_before(line, " bytes smem");
        }
    }
    found
}

/// Returns the lines with warnings.
pub fn warnings(log: &str) -> impl Iterator<Item = &str> {
    log.lines().filter(|line| line.contains("warning"))
}

fn number_before(line: &str, words: &str) -> u32 {
    let before = line.find(words).map_or("", |end| &line[..end]);
    let digits = before.len() - before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    before[before.len() - digits..].parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'spilly' for 'sm_90'
ptxas info    : Function properties for spilly
ptxas         .     824 bytes stack frame, 1140 bytes spill stores, 1188 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 824 bytes cumulative stack size
ptxas info    : Compile time = 46.184 ms
ptxas info    : Compiling entry function 'convert_f32' for 'sm_90'
ptxas info    : Function properties for convert_f32
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 1024 bytes smem
ptxas warning : Value of threads per SM for entry spilly is out of range. .minnctapersm will be ignored
";

    #[test]
    fn every_kernel_of_a_log_is_read() {
        let spilly = Usage { kernel: "spilly".into(), registers: 32, shared: 0, stack: 824, spill: 1188 };
        let convert = Usage { kernel: "convert_f32".into(), registers: 10, shared: 1024, stack: 0, spill: 0 };
        assert_eq!(usages(LOG), [spilly, convert]);
        assert_eq!(warnings(LOG).count(), 1);
    }
}
