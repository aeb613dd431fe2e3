//! Query strings. Unknown and repeated parameters are errors, so that a misspelt one has an effect.

use super::failure::Failure;

/// The parameters that were not read yet.
#[derive(Debug, Default)]
pub struct Query {
    pairs: Vec<(String, String)>,
    /// The parameters that the route has asked for.
    known: Vec<&'static str>,
}

impl Query {
    /// Reads the part of a URL after `?`.
    ///
    /// # Errors
    /// A parameter is given twice, or is not UTF-8.
    pub fn new(text: Option<&str>) -> Result<Self, Failure> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let wrong = |name: &str| Failure::parameter(name, "the query has broken percent-encoding");
            let name = decode(name).ok_or_else(|| wrong(""))?;
            let value = decode(value).ok_or_else(|| wrong(&name))?;
            if pairs.iter().any(|(other, _)| *other == name) {
                return Err(Failure::parameter(&name, format!("`{name}` is given twice")));
            }
            pairs.push((name, value));
        }
        Ok(Self { pairs, known: Vec::new() })
    }

    /// Returns the value of `name`, if it is given.
    pub fn text(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        let at = self.pairs.iter().position(|(other, _)| other == name)?;
        Some(self.pairs.swap_remove(at).1)
    }

    /// Returns the value of `name` as `read` understands it.
    ///
    /// # Errors
    /// `read` returns `None` for it; the message says what is `expected`.
    pub fn value<T>(
        &mut self,
        name: &'static str,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let value = read(&text);
        value.map(Some).ok_or_else(|| Failure::parameter(name, format!("{name}={text:.64}: expected {expected}")))
    }

    /// Rejects parameters that were not read.
    ///
    /// # Errors
    /// There is one.
    pub fn finish(self) -> Result<(), Failure> {
        let Some((name, _)) = self.pairs.first() else { return Ok(()) };
        let known = match self.known.is_empty() {
            true => "this route takes none".to_owned(),
            false => format!("this route takes {}", self.known.join(", ")),
        };
        Err(Failure::parameter(name, format!("unknown parameter `{name:.64}`; {known}")))
    }
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?);
                rest = &rest[2..];
            }
            _ => bytes.push(*first),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn parameters_are_decoded_once() {
        let mut query = Query::new(Some("noise=seed%3A7&x=a+b&y")).unwrap();
        assert_eq!(query.text("noise").as_deref(), Some("seed:7"));
        assert_eq!(query.text("x").as_deref(), Some("a b"));
        assert_eq!(query.text("y").as_deref(), Some(""));
        assert_eq!(query.text("y"), None);
        assert!(query.finish().is_ok());
    }

    #[test]
    fn strange_queries_are_errors() {
        for text in ["a=1&a=2", "a=%", "a=%f", "a=%zz", "a=%ff", "a=%+1"] {
            assert!(Query::new(Some(text)).is_err(), "{text}");
        }
        assert!(Query::new(Some("chnk=2")).unwrap().finish().is_err());
        let mut query = Query::new(Some("chnk=2")).unwrap();
        assert_eq!((query.text("chunk"), query.text("noise")), (None, None));
        let said = query.finish().unwrap_err().json()["error"]["message"].to_string();
        assert_eq!(said, "\"unknown parameter `chnk`; this route takes chunk, noise\"");
        for (text, param) in [("a=%zz", "a".into()), ("%zz=1", Value::Null), ("=1&=2", Value::Null)] {
            assert_eq!(Query::new(Some(text)).unwrap_err().json()["error"]["param"], param, "{text}");
        }
        assert_eq!(Query::new(Some("=1")).unwrap().finish().unwrap_err().json()["error"]["param"], Value::Null);
        let mut query = Query::new(Some("chunk=x")).unwrap();
        assert!(query.value("chunk", "a number", |text| text.parse::<u32>().ok()).is_err());
    }
}
