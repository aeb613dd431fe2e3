//! Plain-text tables with aligned columns.

use super::spaced;

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
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns and no rows.
    pub fn new<const N: usize>(columns: [(&str, Align); N]) -> Self {
        Self { columns: columns.map(|(name, align)| (name.to_owned(), align)).to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If the number of cells differs from the number of columns.
    pub fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        let row: Vec<String> = cells.into_iter().collect();
        assert_eq!(row.len(), self.columns.len(), "a row has one cell per column");
        self.rows.push(row);
    }

    /// The table as text, one line per row, without trailing spaces.
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

    /// The table as an HTML `table` element: every cell is escaped, and a space precedes units.
    pub fn html(&self) -> String {
        let class = |align: Align| if align == Align::Right { " class=\"figure\"" } else { "" };
        let row = |tag: &str, cells: &mut dyn Iterator<Item = (&str, Align)>| {
            let cells: String = cells
                .map(|(cell, align)| format!("<{tag}{}>{}</{tag}>", class(align), escape(&spaced(cell))))
                .collect();
            format!("<tr>{cells}</tr>\n")
        };
        let mut html = String::from("<table>\n");
        html += &row("th", &mut self.columns.iter().map(|(name, align)| (name.as_str(), *align)));
        for cells in &self.rows {
            html += &row("td", &mut cells.iter().zip(&self.columns).map(|(cell, column)| (cell.as_str(), column.1)));
        }
        html + "</table>\n"
    }
}

/// Escapes the special characters of HTML in `text`.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
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
    fn html_is_escaped() {
        let mut table = Table::new([("name", Align::Left)]);
        table.push(["<b>&\"".into()]);
        assert!(table.html().contains("<td>&lt;b&gt;&amp;&quot;</td>"));
    }

    #[test]
    fn columns_are_as_wide_as_their_letters() {
        let mut table = Table::new([("name", Align::Left), ("bytes", Align::Right)]);
        table.push(["größe".into(), "1".into()]);
        table.push(["plain".into(), "22".into()]);
        assert_eq!(table.text(), "name   bytes\ngröße      1\nplain     22\n");
    }
}
