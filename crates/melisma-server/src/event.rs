//! The fields of events. The table "Event fields" in `docs/running.md` says what each means.

macro_rules! fields {
    ($($field:ident = $name:literal,)+) => {
        /// A field of an event.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Field {
            $(
                #[doc = concat!("`", $name, "`")]
                $field,
            )+
        }

        impl Field {
            /// All fields but `time` and `level`, which every event has.
            pub const ALL: &'static [Self] = &[$(Self::$field,)+];

            /// Returns its name in events.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$field => $name,)+
                }
            }
        }
    };
}

fields! {
    Bytes = "bytes",
    Characters = "characters",
    Client = "client",
    ClientRequestId = "client_request_id",
    CopyMs = "copy_ms",
    DecodeMs = "decode_ms",
    Detail = "detail",
    Error = "error",
    Event = "event",
    Events = "events",
    FirstAudioSeconds = "first_audio_seconds",
    FirstFrameSeconds = "first_frame_seconds",
    FirstTokenSeconds = "first_token_seconds",
    Format = "format",
    Frames = "frames",
    Key = "key",
    Keys = "keys",
    Kind = "kind",
    Message = "message",
    Method = "method",
    Model = "model",
    Notes = "notes",
    Outcome = "outcome",
    Path = "path",
    PopulationMs = "population_ms",
    Preset = "preset",
    QueueSeconds = "queue_seconds",
    Reason = "reason",
    RequestId = "request_id",
    Route = "route",
    Seconds = "seconds",
    Status = "status",
    Streams = "streams",
    Voice = "voice",
    Voices = "voices",
}
