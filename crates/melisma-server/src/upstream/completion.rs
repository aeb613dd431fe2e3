//! The objects of a stream of completions.

use serde::Deserialize;

use super::fault;
use crate::http::failure::Failure;

/// Why completions end when the model is done, by vLLM, llama.cpp, TGI, SGLang and their like.
const STOPS: [&str; 6] = ["stop", "eos", "eos_token", "stop_sequence", "stop_token", "end_turn"];

/// What one event says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Text, with the audio tokens in it.
    pub text: String,
    /// Why the text ended, once it has.
    pub end: Option<End>,
    /// Tokens of the prompt, where the upstream tells.
    pub prompt_tokens: u64,
}

/// Why a completion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Nothing follows.
    Done,
    /// The model was done; figures may follow.
    Stop,
    /// It had as many tokens as it may have.
    Length,
}

#[derive(Deserialize)]
struct Completion {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Choice {
    text: Option<String>,
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
}

/// Reads the data of one event, of either API.
///
/// # Errors
/// It is not such an object, reports an error, or ended for any other reason than a stop or its length.
pub fn read(data: &str) -> Result<Chunk, Failure> {
    if data == "[DONE]" {
        return Ok(Chunk { end: Some(End::Done), ..Chunk::default() });
    }
    let completion: Completion =
        serde_json::from_str(data).map_err(|_| fault::garbage("an event is not one").with_detail(data))?;
    if let Some(error) = completion.error.filter(|error| !error.is_null()) {
        return Err(fault::failed(error));
    }
    let prompt_tokens = completion.usage.and_then(|usage| usage.prompt_tokens).unwrap_or(0);
    let Some(choice) = completion.choices.into_iter().next() else {
        return Ok(Chunk { prompt_tokens, ..Chunk::default() });
    };
    let text = choice.text.or_else(|| choice.delta.and_then(|delta| delta.content)).unwrap_or_default();
    let end = match choice.finish_reason.as_deref() {
        None | Some("") => None,
        Some("length") => Some(End::Length),
        Some(reason) if STOPS.contains(&reason) => Some(End::Stop),
        Some(reason) => return Err(fault::failed(format!("finish_reason: {reason}"))),
    };
    Ok(Chunk { text, end, prompt_tokens })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_apis_are_read() {
        let chunk = |text: &str, end| Chunk { text: text.to_owned(), end, prompt_tokens: 0 };
        for (data, expected) in [
            (
                r#"{"choices":[{"index":0,"text":"<custom_token_10>","finish_reason":null}]}"#,
                chunk("<custom_token_10>", None),
            ),
            (r#"{"choices":[{"delta":{"role":"assistant","content":"ab"}}],"usage":null}"#, chunk("ab", None)),
            (r#"{"choices":[{"delta":{"role":"assistant","content":null}}]}"#, chunk("", None)),
            (r#"{"choices":[{"text":"a","finish_reason":""}],"usage":{"prompt_tokens":null}}"#, chunk("a", None)),
            (r#"{"choices":[{"text":"","finish_reason":"stop"}]}"#, chunk("", Some(End::Stop))),
            (r#"{"choices":[{"text":"","finish_reason":"eos_token"}]}"#, chunk("", Some(End::Stop))),
            (r#"{"choices":[{"text":"a","finish_reason":"length"}]}"#, chunk("a", Some(End::Length))),
            ("[DONE]", chunk("", Some(End::Done))),
            (
                r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":70}}"#,
                Chunk { prompt_tokens: 9, ..Chunk::default() },
            ),
        ] {
            assert_eq!(read(data).unwrap(), expected, "{data}");
        }
    }

    #[test]
    fn other_data_is_a_fault() {
        for data in [
            "",
            "hello",
            "[]",
            "7",
            r#"{"choices":7}"#,
            r#"{"error":{"message":"out of memory"}}"#,
            r#"{"choices":[{"text":7}]}"#,
            r#"{"choices":[{"text":"a","finish_reason":"abort"}]}"#,
            r#"{"choices":[{"text":"a","finish_reason":"content_filter"}]}"#,
        ] {
            assert!(read(data).unwrap_err().detail().is_some(), "{data}");
        }
    }
}
