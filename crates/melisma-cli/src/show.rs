//! `--print-config`.

use melisma::Result;
use melisma::config;
use serde_json::json;

use crate::session::Session;

pub fn config(session: &Session) -> Result<()> {
    let file = session.config.file.as_ref().map(|path| path.display().to_string());
    // An unusable device is shown as configured: printing settings needs no device.
    let device = session
        .context()
        .map_or_else(|_| session.config.device.value.to_string(), |context| context.device().to_string());
    let json = json!({ "config_file": file, "config": config::json(session.entries()) });
    session.print_asked(device, || config::table(session.entries()).text(), json)
}
