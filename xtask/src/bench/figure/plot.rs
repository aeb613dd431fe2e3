//! A plot of factors as text: a line for each room, a mark for each row, on a logarithmic axis.

/// The axis begins at 1/4.
const FIRST_EXPONENT: f64 = -2.0;
/// Columns of a doubling.
const PER_DOUBLING: f64 = 5.0;
/// Doublings from the first to the last column, which takes all that lies beyond.
const N_DOUBLINGS: usize = 10;
const N_COLUMNS: usize = N_DOUBLINGS * PER_DOUBLING as usize + 1;
/// Marks of one row, of two or three, and of more.
const MARKS: [char; 3] = ['.', ':', '#'];

/// Returns the plot of the factors of each room; rooms without any are left out.
pub fn text(rooms: &[(&str, Vec<f64>)]) -> String {
    let mut lines = String::new();
    for (room, factors) in rooms.iter().filter(|(_, factors)| !factors.is_empty()) {
        let mut counts = [0usize; N_COLUMNS];
        factors.iter().for_each(|factor| counts[column(*factor)] += 1);
        let is_one = |at: usize| at == column(1.0);
        let marks: String =
            (0..N_COLUMNS).map(|at| mark(counts[at]).unwrap_or(if is_one(at) { '|' } else { ' ' })).collect();
        lines += format!("{room:<10}{marks}").trim_end();
        lines += "\n";
    }
    format!("```text\n{lines}{}\n```\n", axis())
}

fn column(factor: f64) -> usize {
    (((factor.max(1e-9).log2() - FIRST_EXPONENT) * PER_DOUBLING).round().max(0.0) as usize).min(N_COLUMNS - 1)
}

fn mark(n: usize) -> Option<char> {
    match n {
        0 => None,
        1 => Some(MARKS[0]),
        2..=3 => Some(MARKS[1]),
        _ => Some(MARKS[2]),
    }
}

/// Returns the factors at every second doubling, each below its column.
fn axis() -> String {
    let mut line = String::new();
    for doubling in (0..=N_DOUBLINGS).step_by(2) {
        let factor = (doubling as f64 + FIRST_EXPONENT).exp2();
        let at = 10 + doubling * PER_DOUBLING as usize;
        line += &" ".repeat(at - line.len());
        line += &factor.to_string();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_at_their_factors() {
        let plot = text(&[("snac", vec![0.25, 4.0, 4.0, 1e9]), ("mel", vec![])]);
        let lines: Vec<&str> = plot.lines().collect();
        assert_eq!(lines.len(), 4, "{plot}");
        let axis = lines[2];
        let below = |factor: &str| axis.find(factor).unwrap();
        let marks: Vec<char> = lines[1].chars().collect();
        assert_eq!([below("0.25"), below(" 4 ") + 1, below("256")].map(|at| marks[at]), ['.', ':', '.'], "{plot}");
        assert_eq!(marks[below(" 1 ") + 1], '|', "{plot}");
    }
}
