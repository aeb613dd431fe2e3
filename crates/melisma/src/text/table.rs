//! Plain-text tables with aligned columns. `cargo xtask` compiles this file too, because it does not
//! depend on the library.

/// How a column is aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// Rows below a heading; every row has one cell per column.
#[derive(Debug, Clone)]
pub struct Table {
    pub(super) columns: Vec<(String, Align)>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table with these columns and no rows.
    pub fn new<const N: usize>(columns: [(&str, Align); N]) -> Self {
        Self { columns: columns.map(|(name, align)| (name.to_owned(), align)).to_vec(), rows: Vec::new() }
    }

    /// Adds a row, each of its cells on one line.
    ///
    /// # Panics
    /// If the number of cells differs from the number of columns.
    pub fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        let row: Vec<String> = cells.into_iter().map(|cell| one_line(&cell)).collect();
        assert_eq!(row.len(), self.columns.len(), "a row has one cell per column");
        self.rows.push(row);
    }

    /// Adds a column of numbers at the right, a cell for each row.
    ///
    /// # Panics
    /// If the number of cells differs from the number of rows.
    pub fn add_column(&mut self, name: &str, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.rows.len(), "a column has one cell per row");
        self.columns.push((name.to_owned(), Align::Right));
        self.rows.iter_mut().zip(cells).for_each(|(row, cell)| row.push(cell));
    }

    /// Returns the table as text, one line per row, without trailing spaces.
    pub fn text(&self) -> String {
        let heading: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let lines: Vec<&Vec<String>> = std::iter::once(&heading).chain(&self.rows).collect();
        let widths: Vec<usize> =
            (0..heading.len()).map(|c| lines.iter().map(|row| width(&row[c])).max().unwrap_or(0)).collect();
        let mut text = String::new();
        for row in lines {
            let mut line = String::new();
            for ((cell, width_of_column), (_, align)) in row.iter().zip(&widths).zip(&self.columns) {
                let gap = " ".repeat(width_of_column - width(cell));
                line += &match align {
                    Align::Left => format!("{cell}{gap}  "),
                    Align::Right => format!("{gap}{cell}  "),
                };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// Returns `text` on one line: control characters and those that change the display order are escaped.
pub fn one_line(text: &str) -> String {
    escaped(text, |_| false)
}

/// Returns `text` with these characters escaped, except where `is_kept`.
pub fn escaped(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if (c.is_control() || is_direction(c)) && !is_kept(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Returns whether a character changes the display order of others.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligns_words_left_and_figures_right() {
        let mut table = Table::new([("name", Align::Left), ("bytes", Align::Right)]);
        table.push(["a".into(), "1".into()]);
        table.push(["decode".into(), "123456".into()]);
        assert_eq!(table.text(), "name     bytes\na            1\ndecode  123456\n");
    }

    #[test]
    fn columns_are_as_wide_as_their_letters() {
        let mut table = Table::new([("name", Align::Left), ("bytes", Align::Right)]);
        table.push(["größe".into(), "1".into()]);
        table.push(["plain".into(), "22".into()]);
        assert_eq!(table.text(), "name   bytes\ngröße      1\nplain     22\n");
    }

    #[test]
    fn a_name_stays_on_its_line() {
        let mut table = Table::new([("name", Align::Left), ("bytes", Align::Right)]);
        table.push(["a\nb\u{1b}[2J\u{202e}".into(), "1".into()]);
        assert_eq!(table.text(), "name                   bytes\na\\nb\\u{1b}[2J\\u{202e}      1\n");
    }
}
