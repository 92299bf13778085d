//! placeholder
#![allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Limiter;
