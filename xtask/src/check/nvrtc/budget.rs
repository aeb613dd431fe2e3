//! Budgets of kernels, written above them in the `.cu`:
//!
//! ```text
//! // budget: 64 registers, 0 spill
//! extern "C" __global__ void convert_f32_f16(...)
//! ```
//!
//! A budget applies to every kernel named in its paragraph: up to the next blank line, or a `}` at
//! the start of a line. Where a macro pastes names together, `// budget for convert_*: 64
//! registers, 0 spill` applies by pattern.

use super::log::Usage;
use anyhow::{Context, Result, bail};

/// The most a kernel may take: registers per thread, bytes spilled per thread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    pub registers: u32,
    pub spill: u32,
}

impl Budget {
    /// Returns the excess over the budget, in words.
    pub fn exceeded_by(&self, usage: &Usage) -> Option<String> {
        let Budget { registers, spill } = self;
        if usage.registers > *registers {
            return Some(format!("{} registers, its budget is {registers}", usage.registers));
        }
        (usage.spill > *spill).then(|| format!("{} bytes of spill, its budget is {spill}", usage.spill))
    }
}

/// Returns the budget of `kernel` (a symbol, perhaps mangled) in the text of its `.cu` file.
///
/// # Errors
/// The budget is missing or cannot be parsed.
pub fn find(text: &str, kernel: &str) -> Result<Budget> {
    let name = source_name(kernel);
    if let Some(budget) = by_pattern(text, name)? {
        return Ok(budget);
    }
    by_paragraph(text, name)?.with_context(|| format!("no `// budget: N registers, N spill` line above {name}"))
}

/// Returns the name in the source: `_Z4tmplILi3EEvPf` is `tmpl` in the source; names of `extern "C"` kernels are not
/// mangled.
fn source_name(symbol: &str) -> &str {
    let Some(rest) = symbol.strip_prefix("_Z") else { return symbol };
    let digits = rest.chars().take_while(char::is_ascii_digit).count();
    rest[..digits].parse().ok().and_then(|len: usize| rest.get(digits..digits + len)).unwrap_or(symbol)
}

fn by_pattern(text: &str, name: &str) -> Result<Option<Budget>> {
    for line in text.lines() {
        let Some(rest) = line.trim_start().strip_prefix("// budget for ") else { continue };
        let (pattern, limits) = rest.split_once(':').with_context(|| format!("cannot read `{}`", line.trim()))?;
        let fits = match pattern.trim().strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == pattern.trim(),
        };
        if fits {
            return parse(limits).map(Some);
        }
    }
    Ok(None)
}

fn by_paragraph(text: &str, name: &str) -> Result<Option<Budget>> {
    let mut current = None;
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(limits) = trimmed.strip_prefix("// budget:") {
            current = Some(parse(limits)?);
        } else if trimmed.is_empty() || line.starts_with('}') {
            current = None;
        } else if !trimmed.starts_with("//") && current.is_some() && mentions(trimmed, name) {
            return Ok(current);
        }
    }
    Ok(None)
}

fn parse(limits: &str) -> Result<Budget> {
    let read = || {
        let (registers, spill) = limits.split_once(',')?;
        let registers = registers.trim().strip_suffix("registers")?.trim().parse().ok()?;
        let spill = spill.trim().strip_suffix("spill")?.trim().parse().ok()?;
        Some(Budget { registers, spill })
    };
    match read() {
        Some(budget) => Ok(budget),
        None => bail!("cannot read the budget `{}`; write `N registers, N spill`", limits.trim()),
    }
}

/// Returns whether `line` contains `name` as a whole word.
fn mentions(line: &str, name: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(name).any(|(at, _)| !line[..at].ends_with(word) && !line[at + name.len()..].starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
// Rounds to nearest even.
// budget: 64 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256)
convert_f32(const float* x) {
  float y = x[0];
}
extern "C" __global__ void convert_f32_late(float* x) {}

// budget: 32 registers, 16 spill
KERNEL(convert_a, float)
KERNEL(convert_b, float)

KERNEL(convert_c, float)

// budget for matmul_*: 128 registers, 0 spill
// budget: many registers
extern "C" __global__ void bad(float* x) {}
"#;

    fn limits(kernel: &str) -> Option<(u32, u32)> {
        find(SOURCE, kernel).ok().map(|budget| (budget.registers, budget.spill))
    }

    #[test]
    fn a_budget_covers_its_paragraph() {
        assert_eq!(limits("convert_f32"), Some((64, 0)));
        assert_eq!(limits("convert_a"), Some((32, 16)));
        assert_eq!(limits("convert_b"), Some((32, 16)));
    }

    #[test]
    fn a_blank_line_or_a_closing_brace_ends_it() {
        assert_eq!(limits("convert_c"), None);
        assert_eq!(limits("convert_f32_late"), None);
    }

    #[test]
    fn pasted_and_mangled_names_are_found() {
        assert_eq!(limits("matmul_f16_64x64"), Some((128, 0)));
        assert_eq!(
            find("// budget: 8 registers, 0 spill\n__global__ void tmpl();", "_Z4tmplILi3EEvPf").unwrap().registers,
            8
        );
    }

    #[test]
    fn an_unreadable_budget_is_named() {
        let message = find(SOURCE, "bad").unwrap_err().to_string();
        assert!(message.contains("many registers"), "{message}");
    }

    #[test]
    fn both_limits_count() {
        let budget = Budget { registers: 64, spill: 0 };
        let usage = |registers, spill| Usage { kernel: "k".into(), registers, spill, ..Usage::default() };
        assert_eq!(budget.exceeded_by(&usage(64, 0)), None);
        assert_eq!(budget.exceeded_by(&usage(65, 0)).unwrap(), "65 registers, its budget is 64");
        assert_eq!(budget.exceeded_by(&usage(64, 4)).unwrap(), "4 bytes of spill, its budget is 0");
    }
}
