//! The server of Melisma: codec tokens to speech and scores to live music, for many clients at once.

#![forbid(unsafe_code)]
