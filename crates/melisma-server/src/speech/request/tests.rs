use serde_json::json;

use super::*;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn upstream() -> Narrators {
    Narrators { upstream: Some(names(&["tara", "leo"])), ..Narrators::default() }
}

/// Two voice models, the second without names of voices.
fn own() -> Narrators {
    let own = vec![("first".to_owned(), names(&["ann", "bob"])), ("second".to_owned(), names(&["second"]))];
    Narrators { own, ..Narrators::default() }
}

fn read(fields: Value) -> Result<Request, Value> {
    read_by(&upstream(), fields)
}

/// The default request with some other fields.
fn read_by(narrators: &Narrators, fields: Value) -> Result<Request, Value> {
    let mut body = json!({"model": "tts-1", "input": "Hi.", "voice": "alloy"});
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    Request::read(body.to_string().as_bytes(), narrators).map_err(|failure| {
        let error = failure.json()["error"].clone();
        json!({"status": failure.status.as_u16(), "param": error["param"], "message": error["message"]})
    })
}

#[test]
fn the_built_in_voice_also_has_its_own_name() {
    let narrators = Narrators { builtin: Some(1), ..own() };
    assert_eq!(narrators.find(Some("builtin:voice")).unwrap(), Narrator::Own(1));
    assert!(own().find(Some("builtin:voice")).is_err());
    let ids = |narrators: &Narrators| narrators.models_json().to_string();
    assert!(ids(&narrators).contains("\"builtin:voice\"") && !ids(&own()).contains("builtin:voice"));
}

#[test]
fn the_defaults_are_those_of_openai() {
    let request = read(json!({"instructions": null, "response_format": null, "speed": null})).unwrap();
    assert_eq!((&*request.voice, request.format, request.speed), ("tara", Format::Mp3, 1.0));
    assert_eq!((request.stream_format, &*request.instructions), (StreamFormat::Audio, ""));
    assert_eq!(request.pieces, ["Hi."]);
}

#[test]
fn a_picture_comes_with_events() {
    assert!(!read(json!({})).unwrap().has_picture);
    assert!(read(json!({"picture": true, "stream_format": "sse"})).unwrap().has_picture);
    for wrong in [json!({"picture": true}), json!({"picture": 1, "stream_format": "sse"})] {
        let error = read(wrong).unwrap_err();
        assert_eq!((&error["status"], &error["param"]), (&json!(400), &json!("picture")));
    }
}

#[test]
fn fields_are_obeyed() {
    let request = read(json!({"voice": {"id": "leo"}, "response_format": "pcm", "stream_format": "sse", "speed": 0.25,
        "instructions": "softly<|eot_id|>", "input": "A<custom_token_3>. <laugh>", "model": "melisma", "other": 7}));
    let request = request.unwrap();
    assert_eq!((&*request.voice, request.format, request.speed), ("leo", Format::Pcm, 0.25));
    assert_eq!((request.stream_format, &*request.instructions), (StreamFormat::Events, "softly"));
    assert_eq!(request.pieces, ["A. <laugh>"]);
}

#[test]
fn long_inputs_are_cut_and_too_long_ones_refused() {
    let sentence = "é is one character, and this sentence has sixty-four in it, ok. ";
    let request = read(json!({"input": sentence.repeat(64)})).unwrap();
    assert_eq!(request.pieces.len(), 16);
    let error = read(json!({"input": "é".repeat(4097)})).unwrap_err();
    assert_eq!(error["message"], "`input` has 4097 characters; at most 4096 are taken");
}

#[test]
fn what_does_not_exist_is_refused_with_the_list() {
    for (fields, status, param, expected) in [
        (json!({"model": "tts-9"}), 404, "model", "tts-1, tts-1-hd, gpt-4o-mini-tts, melisma"),
        (json!({"voice": "bob"}), 400, "voice", "tara, leo"),
        (json!({"response_format": "aac"}), 400, "response_format", "mp3, opus, flac, wav or pcm"),
        (json!({"stream_format": "x"}), 400, "stream_format", "audio or sse"),
        (json!({"speed": 4.01}), 400, "speed", "from 0.25 to 4"),
        (json!({"speed": 0.24}), 400, "speed", "from 0.25 to 4"),
        (json!({"speed": "1"}), 400, "speed", "from 0.25 to 4"),
        (json!({"input": ""}), 400, "input", "no text"),
        (json!({"input": "<|eot_id|> "}), 400, "input", "no text"),
        (json!({"input": 7}), 400, "input", "missing"),
        (json!({"voice": 7}), 400, "voice", "not a text"),
        (json!({"model": 7}), 400, "model", "not a text"),
        (json!({"instructions": 7}), 400, "instructions", "not a text"),
    ] {
        let error = read(fields.clone()).unwrap_err();
        assert_eq!((&error["status"], &error["param"]), (&json!(status), &json!(param)), "{fields}");
        assert!(error["message"].as_str().unwrap().contains(expected), "{error}");
    }
    for body in ["", "[]", "{", "7"] {
        assert!(Request::read(body.as_bytes(), &upstream()).is_err(), "{body}");
    }
}

#[test]
fn a_voice_model_is_found_by_its_name_and_the_first_without_one() {
    let both = Narrators { upstream: Some(names(&["tara"])), ..own() };
    for (model, narrator, voice) in [
        (json!(null), Narrator::Own(0), "ann"),
        (json!("tts-1"), Narrator::Own(0), "ann"),
        (json!("melisma"), Narrator::Own(0), "ann"),
        (json!("first"), Narrator::Own(0), "ann"),
        (json!("second"), Narrator::Own(1), "second"),
        (json!("upstream"), Narrator::Upstream, "tara"),
    ] {
        let request = read_by(&both, json!({"model": model})).unwrap();
        assert_eq!((request.narrator, &*request.voice), (narrator, voice), "{model}");
    }
    for (model, voice, found) in [("second", "default", "second"), ("first", "default", "ann")] {
        assert_eq!(read_by(&both, json!({"model": model, "voice": voice})).unwrap().voice, found);
    }
    let error = read_by(&own(), json!({"model": "upstream"})).unwrap_err();
    assert_eq!(
        (&error["status"], &error["message"]),
        (
            &json!(404),
            &json!("unknown model `upstream`; the models are first, second, tts-1, tts-1-hd, gpt-4o-mini-tts, melisma")
        )
    );
    // A voice model may take one of OpenAI's names.
    let named = Narrators {
        own: vec![("a".to_owned(), names(&["ann"])), ("tts-1".to_owned(), names(&["bob"]))],
        ..Narrators::default()
    };
    assert_eq!(read_by(&named, json!({"model": "tts-1"})).unwrap().narrator, Narrator::Own(1));
    let ids =
        named.models_json()["data"].as_array().unwrap().iter().map(|model| model["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids, ["a", "tts-1", "tts-1-hd", "gpt-4o-mini-tts", "melisma"]);
}

#[test]
fn a_voice_model_has_a_default_voice_a_seed_and_the_text_as_it_is() {
    let text = "A<custom_token_3>. <laugh> ".repeat(40);
    let request = read_by(&own(), json!({"voice": null, "input": text, "seed": 7})).unwrap();
    assert_eq!((&*request.voice, request.seed, &request.pieces[..]), ("ann", 7, &[text][..]));
    assert_eq!(read_by(&own(), json!({"voice": "bob"})).unwrap().seed, 0);
    assert_eq!(read(json!({"seed": "any"})).unwrap().seed, 0, "an upstream has none");
    for (fields, param) in [
        (json!({"seed": -1}), "seed"),
        (json!({"seed": 1.5}), "seed"),
        (json!({"voice": "cy"}), "voice"),
        (json!({"input": " "}), "input"),
    ] {
        let error = read_by(&own(), fields).unwrap_err();
        assert_eq!((&error["status"], &error["param"]), (&json!(400), &json!(param)));
    }
}

#[test]
fn texts_for_an_upstream_are_normalised_where_it_is_asked_for() {
    let asked = Narrators { normalises: true, ..upstream() };
    let input = json!({"input": "Dr. Lee paid $3.50 at 10:05. \u{1f600}"});
    let request = read_by(&asked, input.clone()).unwrap();
    assert_eq!(request.pieces, ["Doctor Lee paid three dollars and fifty cents at ten oh five."]);
    assert_eq!(request.notes, ["left out: 1 passage"]);
    let plain = read(input).unwrap();
    assert_eq!((&plain.pieces[..], plain.notes.len()), (&["Dr. Lee paid $3.50 at 10:05. \u{1f600}".to_owned()][..], 0));
    let error = read_by(&asked, json!({"input": "\u{65e5}\u{672c}"})).unwrap_err();
    assert_eq!(
        error["message"],
        "`input` has no word to speak: left out, because it has no reading in English: `\u{65e5}\u{672c}`"
    );
    let body = json!({"model": "tts-1", "input": "\u{65e5}\u{672c}"}).to_string();
    let failure = Request::read(body.as_bytes(), &asked).unwrap_err();
    assert_eq!(failure.log_message(), "the text cannot be spoken");
    // A voice model gets the text as it is, and normalises it as its format says.
    let own = read_by(&Narrators { normalises: true, ..own() }, json!({"input": "No. 5", "voice": null})).unwrap();
    assert_eq!((&own.pieces[..], own.notes.len()), (&["No. 5".to_owned()][..], 0));
}
