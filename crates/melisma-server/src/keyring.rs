//! The keys of a server's clients, each with a name, and perhaps an end, a limit of streams and a scope.
//!
//! A file has one plain key, or a line for each: `NAME: KEY [streams=N] [until=DATE] [scope=metrics]`. Names appear in
//! events and metrics, keys nowhere: only their hashes stay in memory. Hashes are compared, so the time of
//! a comparison says nothing about the keys.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use hyper::StatusCode;
use melisma::format::read_text;
use melisma::lock::Mutex;
use melisma::text::base64;
use melisma::{Error, Result};

use crate::http::failure::Failure;
use crate::{key, time};

/// The most keys: each name is a label of metrics.
pub const MAX_KEYS: usize = 1000;
/// The most bytes of a file of keys.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The name of a key that has none.
const PLAIN: &str = "default";
const MAX_NAME_BYTES: usize = 64;
/// The routes of a key with the scope `metrics`, beside those that need no key.
pub(crate) const METRICS: &[&str] = &["/metrics", "/v1/status"];

/// The keys of a server; without one, no key is needed. Clones are the same ring.
#[derive(Debug, Clone, Default)]
pub struct Keyring {
    keys: Arc<Mutex<Arc<[Arc<Key>]>>>,
}

/// A key of a client, known by its name.
#[derive(Debug, Clone)]
pub struct Key {
    name: String,
    /// As it is.
    plain: blake3::Hash,
    /// As browsers send it.
    encoded: blake3::Hash,
    /// When it ends, and the text that said so.
    until: Option<(SystemTime, String)>,
    max_streams: Option<usize>,
    /// The only routes that it opens, if it has a scope.
    routes: Option<&'static [&'static str]>,
    usage: Arc<Usage>,
}

/// What the clients of a key do. It outlives a change of the file.
#[derive(Debug, Default)]
struct Usage {
    requests: AtomicU64,
    refused: AtomicU64,
    streams: AtomicUsize,
}

/// Counts against a key's limit of streams until it is dropped.
#[derive(Debug)]
pub struct StreamPermit {
    usage: Arc<Usage>,
}

/// The figures of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFigures {
    /// The key's name.
    pub name: String,
    /// Requests with the key.
    pub requests: u64,
    /// Streams that its limit refused.
    pub refused: u64,
    /// Open streams.
    pub streams: usize,
}

impl Keyring {
    /// Creates a ring of one plain key. `origin` names the file, variable or argument.
    ///
    /// # Errors
    /// Those of [`key::check`].
    pub fn of_key(origin: &str, text: &str) -> Result<Self> {
        Ok(Self::of(vec![Key::new(PLAIN, &key::check(origin, text)?)]))
    }

    /// Reads the text of a file: one plain key, or a line for each key.
    ///
    /// # Errors
    /// The file has no key, a line is not a name and a key, or a name, a key or an option appears twice. The
    /// message has the number of the line, and never the key.
    pub fn parse(origin: &str, text: &str) -> Result<Self> {
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        let lines: Vec<_> = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect();
        if let [(number, line)] = lines[..]
            && !line.contains(':')
        {
            return Self::of_key(&format!("{origin}:{number}"), line);
        }
        let mut keys: Vec<Key> = Vec::new();
        for (number, line) in lines {
            let origin = format!("{origin}:{number}");
            let key = Key::parse(&origin, line)?;
            let twin = keys.iter().find(|other| other.name == key.name || other.plain == key.plain);
            if let Some(twin) = twin {
                let what = if twin.name == key.name { "the name" } else { "the key of" };
                return Err(Error::invalid(format!("{origin}: {what} `{}` appears twice", twin.name))
                    .with_hint("give each client a name and a key of its own"));
            }
            keys.push(key);
            if keys.len() > MAX_KEYS {
                return Err(Error::invalid(format!("{origin}: more than {MAX_KEYS} keys")));
            }
        }
        match keys.is_empty() {
            true => Err(Error::invalid(format!("{origin}: it has no key")).with_hint(FORM)),
            false => Ok(Self::of(keys)),
        }
    }

    /// Reads a file as [`Keyring::parse`] describes it.
    ///
    /// # Errors
    /// The file cannot be read, or those of [`Keyring::parse`].
    pub fn read(path: &Path) -> Result<Self> {
        Self::parse(&path.display().to_string(), &read_text(path, MAX_FILE_BYTES)?)
    }

    /// Takes the keys of a file again. If it cannot be read, the old ones stay.
    ///
    /// # Errors
    /// Those of [`Keyring::read`]; it is not a plain file.
    pub fn read_again(&self, path: &Path) -> Result<()> {
        // To read from a pipe could take forever.
        if path.exists() && !path.is_file() {
            return Err(Error::invalid(format!("{}: not a file, so it is not read again", path.display())));
        }
        self.replace(&Self::read(path)?);
        Ok(())
    }

    fn of(keys: Vec<Key>) -> Self {
        Self { keys: Arc::new(Mutex::new(keys.into_iter().map(Arc::new).collect())) }
    }

    /// Takes the keys of `new`. Names that stay keep their figures and open streams.
    pub fn replace(&self, new: &Self) {
        let (new, mut keys) = (new.list(), self.keys.lock());
        let keep = |key: &Arc<Key>| {
            let before = keys.iter().find(|before| before.name == key.name);
            let usage = Arc::clone(before.map_or(&key.usage, |before| &before.usage));
            Arc::new(Key { usage, ..Key::clone(key) })
        };
        *keys = new.iter().map(keep).collect();
    }

    /// Returns how many keys there are.
    pub fn count(&self) -> usize {
        self.list().len()
    }

    /// Returns the figures of every key.
    pub fn figures(&self) -> Vec<KeyFigures> {
        let one = |key: &Arc<Key>| KeyFigures {
            name: key.name.clone(),
            requests: key.usage.requests.load(Relaxed),
            refused: key.usage.refused.load(Relaxed),
            streams: key.usage.streams.load(Relaxed),
        };
        self.list().iter().map(one).collect()
    }

    /// Returns the key that a client sent as it is, or in unpadded base64url. Every key is compared.
    pub(crate) fn find(&self, plain: Option<&[u8]>, encoded: &[&[u8]]) -> Option<Arc<Key>> {
        let plain = plain.map(blake3::hash);
        let encoded: Vec<_> = encoded.iter().map(|given| blake3::hash(given)).collect();
        let mut found = None;
        for key in &*self.list() {
            let is_plain = plain.as_ref() == Some(&key.plain);
            if is_plain | encoded.iter().fold(false, |is_same, given| is_same | (*given == key.encoded)) {
                found = Some(Arc::clone(key));
            }
        }
        found
    }

    fn list(&self) -> Arc<[Arc<Key>]> {
        Arc::clone(&self.keys.lock())
    }
}

const FORM: &str = "write `NAME: KEY`, and behind it streams=N, until=2026-12-31 or scope=metrics if you like";

impl Key {
    fn new(name: &str, key: &str) -> Self {
        Self {
            name: name.to_owned(),
            plain: blake3::hash(key.as_bytes()),
            encoded: blake3::hash(base64::encode_url(key.as_bytes()).as_bytes()),
            until: None,
            max_streams: None,
            routes: None,
            usage: Arc::default(),
        }
    }

    /// Reads a line of a file.
    fn parse(origin: &str, line: &str) -> Result<Self> {
        let wrong = |what: &str| Error::invalid(format!("{origin}: {what}")).with_hint(FORM);
        let (name, rest) = line.split_once(':').ok_or_else(|| wrong("expected a name and a key"))?;
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(is_part) {
            return Err(wrong("a name is 1 to 64 letters, digits, dots, hyphens and underscores"));
        }
        if !rest.is_empty() && !rest.starts_with([' ', '\t']) {
            return Err(wrong("expected a space behind the colon"));
        }
        let mut words = rest.split_whitespace();
        let mut key = Self::new(name, &key::check(origin, words.next().unwrap_or_default())?);
        for word in words {
            match word.split_once('=') {
                Some(("streams", n)) if key.max_streams.is_none() => {
                    let n = n.parse().ok().filter(|n| *n > 0);
                    key.max_streams = Some(n.ok_or_else(|| wrong("`streams` is 1 or more"))?);
                }
                Some(("until", date)) if key.until.is_none() => {
                    let end = time::parse_end(date);
                    let end = end.ok_or_else(|| wrong("`until` is a date, or a time as in 2026-12-31T18:00:00Z"))?;
                    key.until = Some((end, date.to_owned()));
                }
                Some(("scope", scope)) if key.routes.is_none() => {
                    let routes = (scope == "metrics").then_some(METRICS);
                    key.routes = Some(routes.ok_or_else(|| wrong("`scope` can only be metrics"))?);
                }
                Some(("streams" | "until" | "scope", _)) => return Err(wrong("an option appears twice")),
                // What stands here may be a part of the key.
                _ => return Err(wrong("expected streams=N, until=DATE or scope=metrics behind the key")),
            }
        }
        Ok(key)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Counts a request with the key for the route with that path.
    ///
    /// # Errors
    /// 401 after its end, 403 if the route is outside its scope.
    pub(crate) fn enter(&self, path: &str) -> std::result::Result<(), Failure> {
        self.usage.requests.fetch_add(1, Relaxed);
        if let Some((_, date)) = self.until.as_ref().filter(|(end, _)| *end <= SystemTime::now()) {
            let message = format!("the API key `{}` was valid until {date} (UTC)", self.name);
            return Err(Failure::unauthorized("expired_api_key", message));
        }
        match self.routes {
            Some(routes) if !routes.contains(&path) => {
                let message = format!("the API key `{}` is for {} only", self.name, routes.join(" and "));
                Err(Failure::new(StatusCode::FORBIDDEN, "key_scope", message).and_close())
            }
            _ => Ok(()),
        }
    }

    /// Takes one of its streams.
    ///
    /// # Errors
    /// 429 if all are in use.
    pub(crate) fn open_stream(&self) -> std::result::Result<StreamPermit, Failure> {
        let most = self.max_streams.unwrap_or(usize::MAX);
        let more = |taken: usize| (taken < most).then_some(taken + 1);
        match self.usage.streams.fetch_update(Relaxed, Relaxed, more) {
            Ok(_) => Ok(StreamPermit { usage: Arc::clone(&self.usage) }),
            Err(_) => {
                self.usage.refused.fetch_add(1, Relaxed);
                let message = format!("the API key `{}` has {most} of {most} streams in use", self.name);
                Err(Failure::new(StatusCode::TOO_MANY_REQUESTS, "key_streams", message)
                    .retry_after(Duration::from_secs(1))
                    .and_close())
            }
        }
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.usage.streams.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# our clients\n\nann: s3cret streams=2 until=2999-12-31\nbo.2:\tother\n";

    fn key(ring: &Keyring, given: &str) -> Option<Arc<Key>> {
        ring.find(Some(given.as_bytes()), &[])
    }

    #[test]
    fn a_file_has_one_plain_key_or_a_line_for_each() {
        for plain in ["s3cret", " s3cret\r\n", "# ours: \n\ns3cret\n# end"] {
            let ring = Keyring::parse("file", plain).unwrap();
            assert_eq!(key(&ring, "s3cret").unwrap().name(), "default", "{plain}");
        }
        assert!(key(&Keyring::of_key("variable", "a:b").unwrap(), "a:b").is_some());
        let ring = Keyring::parse("file", FILE).unwrap();
        assert_eq!(key(&ring, "s3cret").unwrap().name(), "ann");
        assert_eq!(key(&ring, "other").unwrap().name(), "bo.2");
        let encoded = base64::encode_url(b"other");
        assert_eq!(ring.find(None, &[b"x", encoded.as_bytes()]).unwrap().name(), "bo.2");
        for given in ["", "s3cre", "s3crets", "S3CRET", "ann", &encoded] {
            assert!(key(&ring, given).is_none(), "{given}");
        }
        assert!(ring.find(None, &[]).is_none() && ring.find(None, &[b"other"]).is_none());
        assert!(!format!("{ring:?}").contains("s3cret"));
    }

    #[test]
    fn a_wrong_line_is_named_without_its_key() {
        for (text, said) in [
            ("", "file: it has no key"),
            ("\ntwo words", "file:2: a key is visible ASCII characters without spaces"),
            ("s3cr1\ns3cr2", "file:1: expected a name and a key"),
            ("ann:s3cret", "file:1: expected a space behind the colon"),
            ("# only: a comment", "file: it has no key"),
            ("ann: s3cret\nbo", "file:2: expected a name and a key"),
            ("ann:\t", "file:1: the key is empty"),
            ("ann: s3cret\nbo:s3crets", "file:2: expected a space behind the colon"),
            ("ann : s3cret", "file:1: a name is 1 to 64 letters"),
            (": s3cret", "file:1: a name is"),
            ("a b: s3cret", "file:1: a name is"),
            ("ann: s3crét", "file:1: a key is visible"),
            ("ann: s3cret more", "file:1: expected streams=N, until=DATE or scope=metrics"),
            ("ann: s3cret streams=0", "file:1: `streams` is 1 or more"),
            ("ann: s3cret streams=-1", "file:1: `streams` is 1 or more"),
            ("ann: s3cret until=tomorrow", "file:1: `until` is a date"),
            ("ann: s3cret scope=s3crets", "file:1: `scope` can only be metrics"),
            ("ann: s3cret streams=1 streams=2", "file:1: an option appears twice"),
            ("ann: s3cret scope=metrics scope=metrics", "file:1: an option appears twice"),
            ("ann: s3cret\nann: other", "file:2: the name `ann` appears twice"),
            ("ann: s3cret\nbo: s3cret", "file:2: the key of `ann` appears twice"),
        ] {
            let error = Keyring::parse("file", text).unwrap_err();
            let message = format!("{error} {:?}", error.hint());
            assert!(message.contains(said), "{text:?}: {message}");
            assert!(!message.contains("s3cr"), "{message}");
        }
        let many: String = (0..=MAX_KEYS).map(|n| format!("n{n}: k{n}\n")).collect();
        assert!(Keyring::parse("file", &many).unwrap_err().to_string().contains("more than 1000 keys"));
    }

    #[test]
    fn a_key_ends_with_its_day_and_has_its_streams() {
        let ring = Keyring::parse("file", &FILE.replace("2999", "2020")).unwrap();
        let failure = key(&ring, "s3cret").unwrap().enter("/metrics").unwrap_err();
        assert_eq!((failure.status.as_u16(), failure.code()), (401, "expired_api_key"));
        let ring = Keyring::parse("file", FILE).unwrap();
        let ann = key(&ring, "s3cret").unwrap();
        ann.enter("/v1/decode").unwrap();
        let (_first, second) = (ann.open_stream().unwrap(), ann.open_stream().unwrap());
        let failure = ann.open_stream().unwrap_err();
        assert_eq!((failure.status.as_u16(), failure.code()), (429, "key_streams"));
        assert!(failure.json()["error"]["message"] == "the API key `ann` has 2 of 2 streams in use");
        let figures = KeyFigures { name: "ann".to_owned(), requests: 1, refused: 1, streams: 2 };
        assert_eq!(ring.figures()[0], figures);
        // A new file with another limit counts the streams that are open.
        ring.replace(&Keyring::parse("file", "ann: third streams=1\ncy: fourth").unwrap());
        assert_eq!(ring.figures()[0], figures);
        assert!(key(&ring, "s3cret").is_none() && key(&ring, "other").is_none());
        assert!(key(&ring, "third").unwrap().open_stream().is_err());
        drop(second);
        assert_eq!(ring.figures()[0].streams, 1);
        let free: Vec<_> = (0..100).map(|_| key(&ring, "fourth").unwrap().open_stream().unwrap()).collect();
        assert_eq!((free.len(), ring.count()), (100, 2));
    }

    #[test]
    fn a_key_for_metrics_opens_two_routes() {
        let ring = Keyring::parse("file", "ann: s3cret until=2999-12-31 scope=metrics").unwrap();
        let ann = key(&ring, "s3cret").unwrap();
        METRICS.iter().for_each(|path| ann.enter(path).unwrap());
        for path in ["none", "/v1/decode", "/v1/status/", "/metrics2", ""] {
            let failure = ann.enter(path).unwrap_err();
            assert_eq!((failure.status.as_u16(), failure.code()), (403, "key_scope"), "{path}");
            assert_eq!(failure.message(), "the API key `ann` is for /metrics and /v1/status only");
        }
        assert_eq!(ring.figures()[0].requests, 7);
        // A scope that a new file takes away or adds holds from the next request on.
        ring.replace(&Keyring::parse("file", "ann: s3cret\nbo: other scope=metrics").unwrap());
        key(&ring, "s3cret").unwrap().enter("/v1/decode").unwrap();
        assert!(key(&ring, "other").unwrap().enter("/v1/decode").is_err());
    }
}
