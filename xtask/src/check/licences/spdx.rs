//! SPDX licence expressions: `OR`, `AND`, `WITH`, parentheses, and the old `/` for `OR`.
//!
//! `(MIT OR Apache-2.0) AND BSD-3-Clause` is satisfied if BSD-3-Clause and one of the other two are
//! allowed.

use anyhow::{Context, Result, bail};

/// Returns whether the licences that `allowed` accepts suffice to use the work.
///
/// `allowed` sees identifiers, and exceptions in the form `Apache-2.0 WITH LLVM-exception`.
///
/// # Errors
/// `expression` is malformed.
pub fn satisfied(expression: &str, allowed: impl Fn(&str) -> bool) -> Result<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut parser = Parser { words: spaced.split_whitespace().collect(), at: 0, allowed };
    let result = parser.any().with_context(|| format!("licence `{expression}`"))?;
    match parser.peek() {
        None => Ok(result),
        Some(word) => bail!("licence `{expression}`: unexpected `{word}`"),
    }
}

struct Parser<'a, F> {
    words: Vec<&'a str>,
    at: usize,
    allowed: F,
}

impl<F: Fn(&str) -> bool> Parser<'_, F> {
    fn peek(&self) -> Option<&str> {
        self.words.get(self.at).copied()
    }

    fn eat(&mut self, word: &str) -> bool {
        let found = self.peek().is_some_and(|next| next.eq_ignore_ascii_case(word));
        self.at += usize::from(found);
        found
    }

    fn any(&mut self) -> Result<bool> {
        let mut result = self.all()?;
        while self.eat("OR") {
            result |= self.all()?;
        }
        Ok(result)
    }

    fn all(&mut self) -> Result<bool> {
        let mut result = self.one()?;
        while self.eat("AND") {
            result &= self.one()?;
        }
        Ok(result)
    }

    fn one(&mut self) -> Result<bool> {
        if self.eat("(") {
            let result = self.any()?;
            if !self.eat(")") {
                bail!("a parenthesis is not closed");
            }
            return Ok(result);
        }
        let licence = self.identifier()?;
        if self.eat("WITH") {
            let exception = self.identifier()?;
            return Ok((self.allowed)(&format!("{licence} WITH {exception}")));
        }
        Ok((self.allowed)(&licence))
    }

    fn identifier(&mut self) -> Result<String> {
        let word = self.peek().context("it ends too early")?;
        if ["(", ")", "OR", "AND", "WITH"].iter().any(|operator| word.eq_ignore_ascii_case(operator)) {
            bail!("`{word}` stands where a licence should");
        }
        let word = word.to_string();
        self.at += 1;
        Ok(word)
    }
}

#[cfg(test)]
mod tests {
    use super::satisfied;

    fn check(expression: &str) -> bool {
        satisfied(expression, |licence| ["MIT", "Apache-2.0", "BSD-3-Clause"].contains(&licence)).unwrap()
    }

    #[test]
    fn one_choice_is_enough() {
        assert!(check("MIT"));
        assert!(check("MIT OR LGPL-2.1-or-later"));
        assert!(check("GPL-3.0/Apache-2.0"));
        assert!(!check("GPL-3.0 OR LGPL-3.0"));
    }

    #[test]
    fn every_part_is_needed() {
        assert!(check("MIT AND BSD-3-Clause"));
        assert!(!check("MIT AND GPL-3.0"));
    }

    #[test]
    fn and_binds_tighter_than_or_unless_in_parentheses() {
        assert!(check("MIT OR Apache-2.0 AND GPL-3.0"));
        assert!(!check("(MIT OR Apache-2.0) AND GPL-3.0"));
        assert!(check("((MIT OR GPL-3.0) AND (BSD-3-Clause))"));
    }

    #[test]
    fn an_exception_makes_another_licence() {
        assert!(!check("Apache-2.0 WITH LLVM-exception"));
        assert!(check("Apache-2.0 WITH LLVM-exception OR MIT"));
        assert!(satisfied("Apache-2.0 WITH LLVM-exception", |l| l == "Apache-2.0 WITH LLVM-exception").unwrap());
    }

    #[test]
    fn what_is_no_expression_is_an_error() {
        for wrong in ["", "MIT OR", "(MIT", "MIT)", "AND MIT", "MIT Apache-2.0", "MIT WITH", "()"] {
            assert!(satisfied(wrong, |_| true).is_err(), "{wrong}");
        }
    }
}
