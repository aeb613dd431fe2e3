//! Plain text tables.

/// Prints `rows` under `head` with aligned columns; columns of numbers are right-aligned.
pub fn print(head: &[&str], rows: &[Vec<String>]) {
    print!("{}", render(head, rows));
}

fn render(head: &[&str], rows: &[Vec<String>]) -> String {
    let columns: Vec<Column> = head.iter().enumerate().map(|(i, title)| Column::measure(i, title, rows)).collect();
    let mut text = line(head.iter().copied(), &columns);
    for row in rows {
        text += &line(row.iter().map(String::as_str), &columns);
    }
    text
}

struct Column {
    width: usize,
    numeric: bool,
}

impl Column {
    fn measure(index: usize, title: &str, rows: &[Vec<String>]) -> Self {
        let cells = || rows.iter().filter_map(|row| row.get(index));
        Self {
            width: cells().map(|cell| cell.chars().count()).chain([title.chars().count()]).max().unwrap_or(0),
            numeric: cells().all(|cell| cell.is_empty() || cell == "-" || cell.parse::<f64>().is_ok()),
        }
    }
}

fn line<'a>(cells: impl Iterator<Item = &'a str>, columns: &[Column]) -> String {
    let mut text = String::new();
    for (cell, column) in cells.zip(columns) {
        let width = column.width;
        text += &if column.numeric { format!("{cell:>width$}  ") } else { format!("{cell:<width$}  ") };
    }
    format!("{}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::render;

    #[test]
    fn numbers_go_right_and_text_goes_left() {
        let rows = [vec!["fmt".into(), "0.5".into()], vec!["clippy".into(), "12.0".into()]];
        assert_eq!(render(&["step", "seconds"], &rows), "step    seconds\nfmt         0.5\nclippy     12.0\n");
    }
}
