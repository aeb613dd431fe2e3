//! HTTP without routes: the accept loop, its limits and checks, bodies and errors.

pub mod accept;
pub mod body;
mod disconnect;
pub mod failure;
mod framing;
mod gate;
pub mod guard;
mod linger;
pub mod query;
pub mod race;
pub mod responder;
mod socket;
mod socket_state;
pub mod timeouts;
pub mod upload;
