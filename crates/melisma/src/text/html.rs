//! Tables and text as HTML.

use super::spaced;
use super::table::{Align, Table};

impl Table {
    /// Returns the table as an HTML `table` element: every cell is escaped, and a space precedes
    /// units.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_is_escaped() {
        let mut table = Table::new([("name", Align::Left)]);
        table.push(["<b>&\"".into()]);
        assert!(table.html().contains("<td>&lt;b&gt;&amp;&quot;</td>"));
    }
}
